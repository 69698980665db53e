# The root file system of a guest: busybox, our binary, the tools and modules a test asks for.
# shellcheck shell=bash

# Copies a program, without debug information, and the libraries it is linked with.
copy_program() {
  local root=$1 from=$2 library
  strip -o "$root/bin/$(basename "$from")" "$from" || install -m 755 "$from" "$root/bin/" || return 1
  # Static programs make ldd fail.
  for library in $(ldd "$from" 2>/dev/null | grep -oE '/[^ ]+'); do
    [ -e "$root$library" ] || install -D -m 755 "$library" "$root$library" || return 1
  done
}

# Modules and their dependencies, in loading order. Those built in are left out.
copy_modules() {
  local root=$1 number=0 module path
  mkdir -p "$root/modules"
  for module in "${@:2}"; do
    modprobe -d "$MODULES" -S "$KERNEL_RELEASE" --show-depends "$module" >"$root/depends" || return 1
    while read -r kind path _; do
      [ "$kind" = insmod ] || continue
      compgen -G "$root/modules/*-$(basename "${path%.*z*}")" >/dev/null && continue
      number=$((number + 1))
      copy_module "$path" "$root/modules/$(printf '%03d' $number)-$(basename "$path")" || return 1
    done <"$root/depends"
    rm "$root/depends"
  done
}

copy_module() {
  case "$1" in
    *.xz) xz -dc "$1" >"${2%.xz}" ;;
    *.zst) zstd -qdc "$1" >"${2%.zst}" ;;
    *) cp "$1" "$2" ;;
  esac
}

# A tool is a program on the PATH, or one that we built.
find_tool() {
  local sbin
  command -v "$1" && return
  for sbin in "/usr/sbin/$1" "/sbin/$1" "$(dirname "$ZONEWEAVE")/examples/$1"; do
    if [ -x "$sbin" ]; then echo "$sbin"; return; fi
  done
  echo "$1 is needed in the guest and not on this machine: run scripts/install-packages test" >&2
  return 1
}

initramfs() {
  local script=$1 folder=$2 root=$2/initramfs tool path
  mkdir -p "$root"/{bin,dev,proc,sys,tmp,run,mnt,drives}
  copy_program "$root" "$(command -v busybox)" &&
    copy_program "$root" "$ZONEWEAVE" || return 1
  for tool in $(head_of "$script" tools); do
    path=$(find_tool "$tool") && copy_program "$root" "$path" || return 1
  done
  # shellcheck disable=SC2046
  copy_modules "$root" $(head_of "$script" modules) $(head_of "$script" drives | grep -q . && echo nvme) || return 1
  expected_drives "$script" >"$root/drives.expected"
  install -m 755 $HERE/lib/init "$root/init" &&
    install -m 644 $HERE/lib/guest.sh $HERE/lib/array.sh "$root/" &&
    install -m 644 "$script" "$root/test.sh" || return 1
  (cd "$root" && find . -print0 | cpio --null -o -H newc --quiet) >"$folder/initramfs.cpio"
}
