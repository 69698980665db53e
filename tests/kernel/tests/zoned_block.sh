# Zoned disks of the kernel as drives: our own over ublk, and null_blk's with conventional zones. Their answers are
# compared with the emulator.
# modules: ublk_drv null_blk
# tools: zone_differential
# limit: 900

OURS=/dev/ublkb0
NULL=/dev/nullb1
# How many zones a drive has in a state, or in any.
count() { zoneweave zones "$1" --json | grep -o "\"state\": *\"$2" | wc -l; }

check "a disk without zones is refused" fails_with 'has no zones' zoneweave zones /dev/nullb0

# 24 zones of 4 MiB that hold 3 MiB, the first two of them conventional. Without limits of open and active zones:
# null_blk chooses otherwise than others which zone it closes, and counts a zone that is finished.
check "configfs is there" mount -t configfs configfs /sys/kernel/config
mkdir /sys/kernel/config/nullb/nullb1
cd /sys/kernel/config/nullb/nullb1
for setting in size=96 blocksize=4096 memory_backed=1 zoned=1 zone_size=4 zone_capacity=3 zone_nr_conv=2 \
  power=1; do
  echo "${setting#*=}" >"${setting%=*}" || fail "null_blk takes $setting"
done
cd /
within 30 test -b $NULL

check "a zoned disk is looked at" zoneweave zones $NULL
check "conventional zones are left out" test "$(count $NULL '')" = 22
check "2000 commands are answered the same by null_blk" zone_differential $NULL 2000 1
check "what is on it is inspected" zoneweave inspect $NULL
check "an emulated drive is made" zoneweave emu create /tmp/d --drives 1 --zones 24 --zone-capacity 3M
check "drives of one array keep metadata in one way" fails_with 'either all drives' \
  zoneweave array create a --size 8M --level raid0 $NULL /tmp/d/drive0 --destroy $NULL

zoneweave emu serve /tmp/d/drive0 >/tmp/serve.log 2>&1 &
SERVER=$!
within 60 grep -q '^ready' /tmp/serve.log || { cat /tmp/serve.log; fail "our disk is served"; }
check "2000 commands are answered the same by our own disk" zone_differential $OURS 2000 2

check "the server stops" sh -c "kill -TERM $SERVER"
wait $SERVER || fail "the server ended with status $?"

# A user has a disk alone, and gets an error when it is gone.
zone_differential $NULL 100000000 3 >/tmp/using 2>&1 &
USER=$!
check "a disk in use is not taken" within 60 fails_with 'in use' zoneweave array create a --size 8M $NULL /tmp/d/drive0
check "but looked at" zoneweave zones $NULL
echo $((23 * 8192)) >/sys/kernel/config/nullb/nullb1/zone_offline
check "a zone that died is seen" test "$(count $NULL offline)" = 1
echo 0 >/sys/kernel/config/nullb/nullb1/power
wait $USER && fail "a drive that is gone was not missed"
cat /tmp/using
# Requests in flight when it disappears may fail with another error.
check "a drive that is gone is told of" grep -q 'Host Path Error\|Internal Error' /tmp/using
