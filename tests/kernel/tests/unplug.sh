# A drive that is pulled out under load, and another one in its place.
# drives: zns zns zns zns zns disk
# modules: nbd
# tools: nbd-client tagged_blocks
# limit: 900

ARRAY=vol0
DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
BLOCKS=512
tagged() { tagged_blocks "$1" /dev/nbd0 /drives/disk0 $BLOCKS ${2:-}; }
status() { zoneweave array status /drives/zns0 "$@"; }
is_degraded() { [ "$(status --check >/dev/null; echo $?)" = 11 ]; }

# shellcheck disable=SC2086
check "an array is made" zoneweave array create $ARRAY --level raid5 --size 256M $DRIVES
check "and served" serve $DRIVES
check "blocks are written" tagged write 5
GONE=$(readlink /drives/zns2)
tagged write 30 &
LOAD=$!
sleep 3
monitor device_del c2
check "the kernel lets go of the drive" within 120 test ! -e "$GONE"
check "the server notices" within 120 is_degraded
status
check "writing goes on" wait $LOAD
check "everything is there without the drive" tagged verify
tagged write 60 &
LOAD=$!
check "a new drive is rebuilt under load" zoneweave array replace /drives/zns0 --slot 2 --with /drives/zns4
check "writing goes on" wait $LOAD
check "the array is whole" within 60 status --check
status
check "everything is there" tagged verify
check "the server stops" stop_serving
check "the checker agrees" \
  zoneweave array check /drives/zns0 /drives/zns1 /drives/zns4 /drives/zns3
