// Errors and names of a store on their way to RocksDB.
#pragma once

#include <rocksdb/io_status.h>

#include <string>

#include "zoneweave_fs.h"

namespace zoneweave {

// Takes an error of the C interface, and frees it. RocksDB decides by codes: a missing path is an
// I/O error with a subcode, as of its POSIX file system.
inline rocksdb::IOStatus Taken(zw_fs_error* error) {
  using rocksdb::IOStatus;
  if (error == nullptr) return IOStatus::OK();
  const int32_t code = zw_fs_error_code(error);
  const std::string message = zw_fs_error_message(error);
  zw_fs_error_free(error);
  IOStatus status;
  switch (code) {
    case ZW_FS_NOT_FOUND:
      return IOStatus::PathNotFound(message);
    case ZW_FS_INVALID:
      return IOStatus::InvalidArgument(message);
    case ZW_FS_BUSY:
      return IOStatus::Busy(message);
    case ZW_FS_NO_SPACE:
      return IOStatus::NoSpace(message);
    case ZW_FS_DAMAGED:
      // Another read finds the same.
      status = IOStatus::Corruption(message);
      status.SetDataLoss(true);
      return status;
    default:
      return IOStatus::IOError(message);
  }
}

// Damage of a file that is read from front to back, such as a log. A recovery takes a corrupt log for
// one that ends there, unless it is an I/O error: synced writes behind it would be lost in silence.
inline rocksdb::IOStatus AsIOError(const rocksdb::IOStatus& status) {
  if (!status.IsCorruption()) return status;
  rocksdb::IOStatus error = rocksdb::IOStatus::IOError(status.getState());
  error.SetDataLoss(true);
  return error;
}

// Whether an error is of one of these codes; frees it if so.
inline bool TakenIf(zw_fs_error* error, zw_fs_code code, zw_fs_code other) {
  if (error == nullptr) return false;
  const int32_t found = zw_fs_error_code(error);
  if (found != code && found != other) return false;
  zw_fs_error_free(error);
  return true;
}

inline bool TakenIf(zw_fs_error* error, zw_fs_code code) { return TakenIf(error, code, code); }

// Whether a store can be used no more: its server has ended, or the library has failed.
inline bool IsBroken(zw_fs* fs) {
  zw_fs_space space;
  zw_fs_error* error = zw_fs_space_of(fs, &space);
  if (TakenIf(error, ZW_FS_UNREACHABLE, ZW_FS_BUG)) return true;
  zw_fs_error_free(error);
  return false;
}

}  // namespace zoneweave
