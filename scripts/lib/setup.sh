# Shared by scripts/test, scripts/demo and scripts/bench; to be sourced. Everything lies below the repository: builds in
# build/, Python in .venv/. Running a function twice costs a second.
#
#   pc_setup_system [packages_ci.txt]   Debian packages that are missing, by apt
#   pc_setup_python                     .venv with the pinned packages of requirements.txt
#   pc_build <preset> [target...]       configure and build
#   pc_install_package                  the wheel of this tree into .venv

pc_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
pc_python=$pc_root/.venv/bin/python

pc_note() { printf '== %s\n' "$*" >&2; }
pc_die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Packages of the given lists that dpkg does not know as installed.
pc_missing_packages() {
  local list package
  for list in "$@"; do
    while read -r package; do
      case $package in '' | '#'*) continue ;; esac
      dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || printf '%s\n' "$package"
    done <"$pc_root/scripts/$list"
  done
}

pc_setup_system() {
  if ! command -v dpkg-query >/dev/null; then
    pc_note "not a Debian system: install what scripts/packages.txt names by your own means"
    return
  fi
  local missing sudo=()
  mapfile -t missing < <(pc_missing_packages packages.txt "$@")
  if [[ ${#missing[@]} -eq 0 ]]; then
    return
  fi
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      pc_die "these packages are missing, and neither root nor sudo is here: ${missing[*]}"
    sudo=(sudo)
  fi
  pc_note "installing ${missing[*]}"
  # apt's own output goes to standard error: what a script reports is all that it prints.
  "${sudo[@]}" apt-get update >&2 &&
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >&2 ||
    pc_die "apt-get could not install: ${missing[*]}"
}

pc_setup_python() {
  local wanted=$pc_root/scripts/requirements.txt stamp=$pc_root/.venv/requirements.txt
  if [[ ! -x $pc_python ]]; then
    pc_note "creating .venv"
    # The system's Python by name: it is the one whose headers the packages above bring.
    local python=/usr/bin/python3
    [[ -x $python ]] || python=python3
    "$python" -m venv "$pc_root/.venv" >&2 ||
      pc_die "cannot create .venv: install the package python3-venv, remove .venv, and run this again"
  fi
  if ! cmp -s "$wanted" "$stamp"; then
    pc_note "installing scripts/requirements.txt into .venv"
    "$pc_python" -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2 ||
      pc_die "pip could not install scripts/requirements.txt; behind a proxy set PIP_INDEX_URL or https_proxy"
    cp "$wanted" "$stamp"
  fi
}

# Jobs that fit: one per core, and at most one per 1.5 GB of free memory, which the largest file needs.
pc_jobs() {
  local cores free_kib by_memory
  cores=$(nproc)
  free_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((free_kib / 1500000))
  printf '%s\n' $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

pc_build() {
  local preset=$1
  shift
  (
    cd "$pc_root"
    cmake --preset "$preset" >&2 || exit 1
    cmake --build --preset "$preset" --parallel "$(pc_jobs)" ${1:+--target "$@"} >&2
  ) || pc_die "the build of preset $preset failed"
}

# The package of this tree into .venv. Without build isolation: the build's own needs are pinned in requirements.txt and
# lie in .venv already, so nothing is fetched, and the build folder is kept between runs.
pc_install_package() {
  pc_setup_python
  pc_note "installing the package into .venv"
  (
    cd "$pc_root"
    CMAKE_BUILD_PARALLEL_LEVEL=$(pc_jobs) "$pc_python" -m pip install --quiet --disable-pip-version-check \
      --no-build-isolation --no-deps \
      --config-settings=build-dir=build/wheel . >&2
  ) || pc_die "the package could not be installed into .venv"
}
