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

# Options for one drive: a controller of its own, behind a port from which it can be unplugged. The controller is
# called c0, c1 ..., its backend d0, d1 ...; the guest finds it as /drives/KIND0, /drives/KIND1 ...
drive_options() {
  local number=$1 serial=$2 kind=$3 folder=$4 image=$4/$2.img
  local zoned=zoned=true,zoned.zone_size=16M,zoned.zone_capacity=12M,zoned.max_open=14,zoned.max_active=14
  local namespace=logical_block_size=4096,physical_block_size=4096
  truncate -s 512M "$image"
  echo -device "pcie-root-port,id=port$number,chassis=$((number + 1)),slot=$((number + 1))"
  # QEMU 7.2 drops metadata of transfers whose metadata is longer than 512 bytes and no multiple of that: with
  # mdts=3 there are none, as commands have 8 blocks at most.
  local transfer=7
  case "$kind" in
    zns) namespace+=,ms=64,mset=0,$zoned transfer=3 ;;
    plainzns) namespace+=,$zoned ;;
    disk) ;;
    *) echo "no kind of drive is called $kind" >&2; return 1 ;;
  esac
  echo -device "nvme,id=c$number,serial=$serial,bus=port$number,mdts=$transfer"
  echo -drive "file=$image,id=d$number,format=raw,if=none,cache=unsafe"
  echo -device "nvme-ns,drive=d$number,bus=c$number,nsid=1,$namespace"
}

# What a guest asks of the host: `monitor ...` goes on to QEMU's monitor, `host ...` is done here.
requests() {
  local folder=$1 whom what
  while read -r whom what; do
    case "$whom" in
      monitor) echo "$what" ;;
      host) host_request "$folder" "$what" >&2 ;;
    esac
  done
}

# Boots a guest and waits for its end. `console` is what its kernel and test said, `results` what it reported and
# what it asked of the host.
boot() {
  local script=$1 folder=$2 number=0 kind options=() counts= guest
  for kind in $(head_of "$script" drives); do
    # shellcheck disable=SC2207
    options+=($(drive_options $number "$kind$(grep -ow "$kind" <<<"$counts" | wc -l)" "$kind" "$folder"))
    counts+=" $kind"
    number=$((number + 1))
  done
  : >"$folder/console" >"$folder/results"
  mkfifo "$folder/requests"
  # shellcheck disable=SC2046
  timeout -k 5 "$(limit_of "$script")" qemu-system-x86_64 "${MACHINE[@]}" -monitor stdio \
    -serial "file:$folder/console" -serial "file:$folder/results" -kernel "$KERNEL" \
    -initrd "$folder/initramfs.cpio" -append "$COMMAND_LINE" "${options[@]}" \
    $(head_of "$script" qemu | sed "s|@FOLDER@|$folder|g") \
    <"$folder/requests" >"$folder/monitor" 2>&1 &
  guest=$!
  tail -n +1 -f -s 0.1 --pid=$guest "$folder/results" 2>/dev/null |
    sed -un 's/\r//g; /^\(monitor\|host\) /p' | requests "$folder" >"$folder/requests"
  wait $guest
  rm "$folder/requests"
}
