# The same random commands on a drive of QEMU's and on our emulator; and the properties of a drive, measured through the
# kernel.
# drives: zns zns
# tools: zone_differential
# limit: 900

check "100000 commands are answered the same" zone_differential /drives/zns0 100000 1
check "a drive is characterized" \
  zoneweave characterize /drives/zns1 --quick --destroy /drives/zns1 --quiet
