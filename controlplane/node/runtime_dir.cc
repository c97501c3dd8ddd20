#include "controlplane/node/runtime_dir.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace peercache {
namespace {

Result<void> check_owned(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    return make_system_error(Errc::kSystem, errno, "runtime directory cannot be looked at");
  }
  if (!S_ISDIR(status.st_mode)) {
    return make_system_error(Errc::kSystem, ENOTDIR, "runtime_dir is not a directory");
  }
  if (status.st_uid != geteuid()) {
    return make_error(Errc::kPermission,
                      "runtime directory belongs to user {}, this process runs as {}: set runtime_dir",
                      status.st_uid, geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return make_error(Errc::kPermission,
                      "runtime directory has mode {} (decimal) and others may write it: chmod 700 it",
                      status.st_mode & 07777);
  }
  return {};
}

}  // namespace

Result<std::string> open_runtime_dir(const std::string& wanted) {
  std::string path = wanted;
  if (path.empty()) {
    path = "/run/peercache";
    if (mkdir(path.c_str(), 0700) != 0 && (errno != EEXIST || access(path.c_str(), W_OK) != 0)) {
      path = "/tmp/peercache-" + std::to_string(geteuid());
    }
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_system_error(Errc::kSystem, errno, "runtime directory cannot be made: set runtime_dir");
  }
  PC_TRY(check_owned(path));
  return path;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace peercache
