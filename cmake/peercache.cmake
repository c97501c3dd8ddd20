# The project's CMake vocabulary. Every folder is one target; sources are listed by name.

add_library(pc_warnings INTERFACE)
target_compile_options(pc_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wundef
  $<$<BOOL:${PC_WERROR}>:-Werror>
  # Clang counts changes of sign as conversions and g++ does not: one meaning for both, or half of us find out late.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety;-Wno-sign-conversion>)

add_library(pc_build INTERFACE)
# Logs and asserts carry base names; debug information is independent of where the tree lies.
target_compile_options(pc_build INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(PC_SANITIZE)
  target_compile_options(pc_build INTERFACE
    -fsanitize=${PC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pc_build INTERFACE -fsanitize=${PC_SANITIZE})
endif()
if(PC_BUILD_FUZZ)
  target_compile_options(pc_build INTERFACE -fsanitize=fuzzer-no-link)
endif()

# pc_add_folders(<folder>...): adds each folder that has a CMakeLists.txt, in the order given.
function(pc_add_folders)
  foreach(folder IN LISTS ARGN)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()

# pc_add_library(<name> [SOURCES ...] [HEADERS ...] [DEPENDS ...] [PRIVATE_DEPENDS ...] [HEAVY])
# Without SOURCES the library is header-only. Includes are written from the root of the tree.
# HEAVY: its sources include heavy headers (scripts/heavy.txt) and are not run through clang-tidy.
function(pc_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HEAVY" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS")
  pc_check_arguments(${name} "${arg_UNPARSED_ARGUMENTS}")
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${name} PRIVATE pc_warnings PUBLIC pc_build)
    if(PC_CLANG_TIDY AND NOT arg_HEAVY)
      set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "${PC_CLANG_TIDY}")
    endif()
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${name} INTERFACE pc_build)
  endif()
  target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} ${scope} ${arg_DEPENDS})
  if(arg_PRIVATE_DEPENDS)
    target_link_libraries(${name} PRIVATE ${arg_PRIVATE_DEPENDS})
  endif()
  if(arg_HEADERS)
    target_sources(${name} ${scope}
      FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  endif()
endfunction()

# pc_add_program(<name> SOURCES ... [DEPENDS ...]): an executable in build/<preset>/bin.
function(pc_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  pc_check_arguments(${name} "${arg_UNPARSED_ARGUMENTS}")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE pc_warnings pc_build ${arg_DEPENDS})
endfunction()

# pc_add_test(<name> SOURCES ... [DEPENDS ...] [LABELS ...] [TIMEOUT seconds] [OWN_MAIN])
# Every case of the program becomes one ctest test, "<name>/<case>" being its name, with these labels.
# Labels in use: dataplane (data plane) and core (pure parts of the control plane) also run under the sanitizers;
# unit, conformance, sim, process say what kind of test it is; slow is left out by scripts/test --quick.
# OWN_MAIN: the sources have a main; the program is one ctest test and 77 means skipped (conventions 34).
function(pc_add_test name)
  if(NOT PC_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MAIN" "TIMEOUT" "SOURCES;DEPENDS;LABELS")
  pc_check_arguments(${name} "${arg_UNPARSED_ARGUMENTS}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)  # a unit test that needs more says so
  endif()
  pc_add_program(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
  if(arg_OWN_MAIN)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES
      SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  else()
    target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain)
    catch_discover_tests(${name} TEST_PREFIX "${name}/" TEST_LIST ${name}_CASES
      PROPERTIES TIMEOUT ${arg_TIMEOUT})
    # A list does not survive the way through Catch's scripts as a property: ctest sets the labels itself.
    set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
    file(WRITE ${labels_file} "if(${name}_CASES)\n"
      "  set_tests_properties(\${${name}_CASES} PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  endif()
endfunction()

# pc_add_fuzz(<name> SOURCES ... [DEPENDS ...])
# With PC_BUILD_FUZZ: a libFuzzer program. Elsewhere: a test that replays tests/fuzz/corpus/<name>/.
function(pc_add_fuzz name)
  if(NOT PC_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  pc_check_arguments(${name} "${arg_UNPARSED_ARGUMENTS}")
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(PC_BUILD_FUZZ)
    pc_add_program(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # A short run from the corpus; longer ones are started by hand with the same program.
    add_test(NAME ${name} COMMAND ${name} -runs=20000 -max_total_time=20
             -artifact_prefix=${PROJECT_BINARY_DIR}/ ${corpus})
  else()
    pc_add_program(${name} SOURCES ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay_main.cc
                   DEPENDS ${arg_DEPENDS})
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS "fuzz;dataplane")
endfunction()

# pc_add_perf(<name> SOURCES ... [DEPENDS ...]): a benchmark program. Its test only proves that it runs (--smoke).
function(pc_add_perf name)
  if(NOT PC_BUILD_PERF)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_SMOKE" "" "SOURCES;DEPENDS")
  pc_check_arguments(${name} "${arg_UNPARSED_ARGUMENTS}")
  pc_add_program(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
  if(PC_BUILD_TESTS AND NOT arg_NO_SMOKE)
    add_test(NAME ${name} COMMAND ${name} --smoke)
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS "perf")
  endif()
endfunction()

function(pc_check_arguments name unparsed)
  if(NOT unparsed STREQUAL "")
    message(FATAL_ERROR "${name}: unknown arguments: ${unparsed}")
  endif()
endfunction()
