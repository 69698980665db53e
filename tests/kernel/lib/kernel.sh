# The kernel of the guests: Debian's, unpacked under target/ and kept there. The one for virtual machines would be a
# quarter of it, but has no f2fs.
#
# It comes from a suite newer than the machine's, with an apt that has its own lists and touches nothing of the
# system. Sets KERNEL (the image) and MODULES (a folder for `modprobe -d`), or KERNEL_PROBLEM.
# shellcheck shell=bash

KERNEL_SUITE=trixie
KERNEL_PACKAGE=linux-image-amd64
# The mirror that this machine uses itself.
KERNEL_MIRROR=${KERNEL_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
  grep -E '/debian/?$' | head -n 1)}
KERNEL_PROBLEM=

kernel_apt() {
  local root=$1
  shift
  "$1" -o Dir::Etc::sourcelist="$root/apt.sources" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$root/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$root/cache" \
    -o APT::Sandbox::User=root -o Acquire::Retries=3 -o Acquire::http::Timeout=60 "${@:2}"
}

# Downloads and unpacks into a folder that gets its name when it is whole.
download_kernel() {
  local root=$1 package
  rm -rf "$root"
  mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$root/unpacked"
  cat >"$root/apt.sources" <<SOURCES
Types: deb
URIs: $KERNEL_MIRROR
Suites: $KERNEL_SUITE
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  kernel_apt "$root" apt-get update -q &&
    package=$(kernel_apt "$root" apt-cache depends $KERNEL_PACKAGE |
      sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1) && [ -n "$package" ] &&
    (cd "$root" && kernel_apt "$root" apt-get download -q "$package") &&
    dpkg-deb -x "$root"/linux-image-*.deb "$root/unpacked" || return 1
  # Older packages have lib, newer ones usr/lib; modprobe looks in lib.
  [ -e "$root/unpacked/lib" ] || ln -s usr/lib "$root/unpacked/lib"
  depmod -b "$root/unpacked" "$(ls "$root/unpacked/lib/modules")"
}

fetch_kernel() {
  local kept=$PWD/target/kernel-tests/$KERNEL_PACKAGE
  if [ ! -d "$kept" ]; then
    command -v apt-get >/dev/null || { KERNEL_PROBLEM="not a Debian system"; return 1; }
    [ -n "$KERNEL_MIRROR" ] || { KERNEL_PROBLEM="apt has no mirror of Debian: set KERNEL_MIRROR"; return 1; }
    if ! download_kernel "$kept.part" >"$kept.log" 2>&1; then
      KERNEL_PROBLEM="$KERNEL_MIRROR cannot be reached, or has no $KERNEL_PACKAGE in $KERNEL_SUITE ($kept.log)"
      return 1
    fi
    rm -rf "$kept.part/lists" "$kept.part/cache" "$kept.part"/*.deb
    mv "$kept.part" "$kept"
  fi
  MODULES=$kept/unpacked
  KERNEL_RELEASE=$(ls "$MODULES/lib/modules")
  KERNEL=$MODULES/boot/vmlinuz-$KERNEL_RELEASE
  echo "kernel $KERNEL_RELEASE"
}
