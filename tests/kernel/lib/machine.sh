# The guest: QEMU without KVM, so that it runs wherever the tests do.
# shellcheck shell=bash

# QEMU 7.2 emulates cmpxchg16b wrongly under load; kernels do without.
MACHINE=(-accel tcg,thread=multi -machine q35 -cpu Haswell,-cx16 -smp 2 -m 2048 -nodefaults -display none)
COMMAND_LINE='console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check rdinit=/init'

limit_of() {
  local limit
  limit=$(head_of "$1" limit)
  echo $((${limit:-120}))
}

# Where the medium of a drive fails: `# fails: zns0 read 24576` in the head of a test, any number of such lines. The
# sector (of 512 bytes) is one of the image, where zones lie one after the other and metadata behind them all. A
# `write` fails with 0x280 and a `read` with 0x281, always.
failures_of() {
  local script=$1 serial=$2 number=0 drive kind sector
  sed -n 's/^# fails: *//p' "$script" | while read -r drive kind sector; do
    [ "$drive" = "$serial" ] || continue
    printf ',inject-error.%d.event=none,inject-error.%d.iotype=%s,inject-error.%d.errno=5,inject-error.%d.sector=%d' \
      $number $number "$kind" $number $number "$sector"
    number=$((number + 1))
  done
}

# Options for one drive: a controller of its own, behind a port from which it can be unplugged. The controller is
# called c0, c1 ..., its backend d0, d1 ...; the guest finds it as /drives/KIND0, /drives/KIND1 ...
drive_options() {
  local script=$1 number=$2 serial=$3 kind=$4 image=$5/$3.img failures
  local zoned=zoned=true,zoned.zone_size=16M,zoned.zone_capacity=12M,zoned.max_open=14,zoned.max_active=14
  local namespace=logical_block_size=4096,physical_block_size=4096
  truncate -s 512M "$image"
  echo -device "pcie-root-port,id=port$number,chassis=$((number + 1)),slot=$((number + 1))"
  # QEMU 7.2 drops metadata of transfers whose metadata is longer than 512 bytes and no multiple of that: with
  # mdts=3 there are none, as commands have 8 blocks at most.
  local transfer=7 subsystem=
  case "$kind" in
    zns) namespace+=,ms=64,mset=0,$zoned transfer=3 ;;
    sharedzns)
      # In a subsystem, and so the kernel's to reach by any controller of that: as it is with drives of two ports.
      namespace+=,ms=64,mset=0,$zoned transfer=3
      subsystem=,subsys=s$number
      echo -device "nvme-subsys,id=s$number,nqn=s$number"
      ;;
    plainzns) namespace+=,$zoned ;;
    disk) ;;
    *) echo "no kind of drive is called $kind" >&2; return 1 ;;
  esac
  echo -device "nvme,id=c$number,serial=$serial,bus=port$number,mdts=$transfer$subsystem"
  failures=$(failures_of "$script" "$serial")
  if [ -n "$failures" ]; then
    echo -blockdev "driver=blkdebug,node-name=d$number,image.driver=file,image.filename=$image,image.cache.no-flush=on$failures"
  else
    echo -drive "file=$image,id=d$number,format=raw,if=none,cache=unsafe"
  fi
  echo -device "nvme-ns,drive=d$number,bus=c$number,nsid=1,$namespace"
}

# Requests of a guest to the host: `monitor ...` goes on to QEMU's monitor, `host ...` is done here.
requests() {
  local folder=$1 whom what
  while read -r whom what; do
    case "$whom" in
      monitor) echo "$what" ;;
      host) host_request "$folder" "$what" >&2 ;;
    esac
  done
}

# The drives of a test by their serial numbers, in the order of their controllers: zns0, zns1, disk0.
expected_drives() {
  head_of "$1" drives | tr -s ' ' '\n' | awk 'NF { print $1 count[$1]++ + 0 }'
}

# Boots a guest and waits for its end. `console` has the output of its kernel and test, `results` its reports and
# its requests to the host.
boot() {
  local script=$1 folder=$2 number=0 serial options=() guest
  for serial in $(expected_drives "$script"); do
    # shellcheck disable=SC2207
    options+=($(drive_options "$script" $number "$serial" "${serial%%[0-9]*}" "$folder"))
    number=$((number + 1))
  done
  : >"$folder/console" >"$folder/results"
  mkfifo "$folder/requests"
  # shellcheck disable=SC2046
  TIMEFORMAT='%U s of processor by the guest, %S s by the system'
  { time timeout -k 5 "$(limit_of "$script")" qemu-system-x86_64 "${MACHINE[@]}" -monitor stdio \
    -serial "file:$folder/console" -serial "file:$folder/results" -kernel "$KERNEL" \
    -initrd "$folder/initramfs.cpio" -append "$COMMAND_LINE" "${options[@]}" \
    $(head_of "$script" qemu | sed "s|@FOLDER@|$folder|g") \
    <"$folder/requests" >"$folder/monitor" 2>&1; } 2>"$folder/time" &
  guest=$!
  tail -n +1 -f -s 0.1 --pid=$guest "$folder/results" 2>/dev/null |
    sed -un 's/\r//g; /^\(monitor\|host\) /p' | requests "$folder" >"$folder/requests"
  wait $guest
  rm "$folder/requests"
}
