// Runs a fuzz target over a checked-in corpus where there is no libFuzzer: every input that ever
// failed stays a test.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) {
        continue;
      }
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file),
                                    std::istreambuf_iterator<char>()};
      // A copy of exactly its size: reading beyond it is found by the address sanitizer.
      const std::vector<uint8_t> input(bytes.begin(), bytes.end());
      static_cast<void>(LLVMFuzzerTestOneInput(input.data(), input.size()));
      ++inputs;
    }
  }
  std::fprintf(stderr, "%zu inputs replayed\n", inputs);
  return inputs == 0 ? 1 : 0;  // an empty corpus tests nothing
}
