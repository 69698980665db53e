// The level of a table, which RocksDB 7.8 knows when it asks for a hint, and does not pass on.
//
// level.cc interposes the function that computes the hint of a table. The value that it returns has
// the hint in its low bits and the level above them, and reaches the file with
// SetWriteLifeTimeHint. Other file systems of the process take such a value for an unknown hint.
#pragma once

#include "zoneweave_fs.h"

namespace zoneweave {

constexpr int kHintBits = 4;

constexpr int WithLevel(int hint, int level) { return hint | (level + 1) << kHintBits; }

// The hints in a value that may have a level.
inline zw_fs_hints HintsOf(int value) {
  const int hint = value & ((1 << kHintBits) - 1), level = (value >> kHintBits) - 1;
  zw_fs_hints hints = {ZW_FS_LIFETIME_NOT_SET, ZW_FS_NO_LEVEL};
  if (hint <= ZW_FS_LIFETIME_EXTREME) hints.lifetime = static_cast<uint8_t>(hint);
  if (level >= 0 && level < ZW_FS_NO_LEVEL) hints.level = static_cast<uint8_t>(level);
  return hints;
}

}  // namespace zoneweave
