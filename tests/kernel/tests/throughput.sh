# The throughput of an array and of its drives: fio on the kernel's own block devices of four zoned drives, and on the array of
# these as a disk of the kernel. Measurements are told, and nothing is judged by them: an emulated processor, two guests
# at a time and other load of this machine are in them, in the same way on both sides.
# drives: zns zns zns zns
# modules: ublk_drv
# tools: fio blkzone
# limit: 600

DISK=/dev/ublkb0
DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
DEVICES="$(block_device zns0) $(block_device zns1) $(block_device zns2) $(block_device zns3)"

# Hundredths of a second that processors were busy since the start.
busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }

# `measured NAME READ-OR-WRITE FIO-OPTIONS...`: how many requests a second, and the processor time of each, in
# $requests and $microseconds. Four jobs, 16 requests of each in flight; not by io_uring, which hands requests that would wait for an
# earlier write of its zone to threads, and those send it in any order.
measured() {
  local field=$1 before
  shift
  before=$(busy)
  fio --direct=1 --ioengine=libaio --iodepth=16 --group_reporting --minimal --random_generator=lfsr "$@" >/tmp/fio.log || return 1
  requests=$(cut -d';' -f"$field" /tmp/fio.log)
  kilobytes=$(cut -d';' -f$((field - 2)) /tmp/fio.log)
  microseconds=$(awk -v busy=$(($(busy) - before)) -v kilobytes="$kilobytes" -v block="$BLOCK" \
    'BEGIN { printf "%.0f", busy * 10000 / (kilobytes / block) }')
}
reset_drives() { for drive in $DEVICES; do /bin/blkzone reset "$drive" || return 1; done; }
# A job for each drive, whose zones are empty before they are written; or as many on the disk, each with a part of it.
raw() {
  local field=$1 jobs=
  shift
  [ "$field" = $READS ] || reset_drives || return 1
  for drive in $DEVICES; do jobs="$jobs --name=$(basename "$drive") --filename=$drive"; done
  # shellcheck disable=SC2086
  measured "$field" "$@" --zonemode=zbd --max_open_zones=8 $jobs
}
array() {
  local field=$1
  shift
  measured "$field" "$@" --name=array --filename=$DISK --numjobs=4 --offset_increment=64M
}

# Fields of fio's terse output: reads and writes have the same fields, 41 apart.
READS=8 WRITES=49
run() {
  local what=$1 side=$2 field=$3
  shift 3
  check "fio: $what on the $side" "$side" "$field" "$@"
  eval "${side}_requests=$requests ${side}_microseconds=$microseconds"
}
measure_all() {
  local side=$1
  BLOCK=4 run "writes of 4 KiB" "$side" $WRITES --rw=randwrite --bs=4k --size=48M --io_size=6M
  eval "small_$side='$requests $microseconds'"
  BLOCK=64 run "writes of 64 KiB" "$side" $WRITES --rw=write --bs=64k --size=32M
  eval "large_$side='$requests $microseconds'"
  BLOCK=4 run "reads of 4 KiB" "$side" $READS --rw=randread --bs=4k --size=32M --io_size=6M
  eval "reads_$side='$requests $microseconds'"
}
tell() {
  note "$(echo "$2 $3" | awk -v what="$1" '{ printf "%s: drives %d/s, %d us of processor each; array %d/s, %d us; ratio %.2f",
    what, $1, $2, $3, $4, $3 / $1 }')"
}

measure_all raw
check "drives are reset" reset_drives
# shellcheck disable=SC2086
check "an array is made" zoneweave array create vol0 --level raid5 --size 400M $DRIVES
# shellcheck disable=SC2086
check "and served" serve $DRIVES
measure_all array
check "the server stops" stop_serving
tell "writes of 4 KiB" "$small_raw" "$small_array"
tell "writes of 64 KiB" "$large_raw" "$large_array"
tell "reads of 4 KiB" "$reads_raw" "$reads_array"
