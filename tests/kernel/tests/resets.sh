# Controllers are reset under load, again and again, which costs no drive. The drives' devices are such as several controllers
# may share: while the only one is away, these fail every request at once.
# drives: sharedzns sharedzns sharedzns sharedzns
# modules: ublk_drv
# tools: fio
# limit: 900

DRIVES="/drives/sharedzns0 /drives/sharedzns1 /drives/sharedzns2 /drives/sharedzns3"
DISK=/dev/ublkb0
ARRAY=vol0

is_shared() { test -e "/sys/class/nvme-subsystem/nvme-subsys${1}/nvme${1}"; }
for controller in 0 1 2 3; do
  check "the namespace of controller $controller is one that others may have" is_shared $controller
done
reset() { echo 1 >"/sys/class/nvme/nvme$1/reset_controller"; }
verified() { wait $FIO || { cat /tmp/fio.log /tmp/server.log; return 1; }; }
# shellcheck disable=SC2086
check "an array is made" zoneweave array create $ARRAY --level raid5 --size 200M $DRIVES
# shellcheck disable=SC2086
check "and served" serve $DRIVES
fio_verifies $DISK --io_size=128M --loops=3 >/tmp/fio.log 2>&1 &
FIO=$!
writes_more 50
resets=0
while [ $resets -lt 12 ] && kill -0 $FIO 2>/dev/null; do
  check "controller $((resets % 4)) is reset" reset $((resets % 4))
  resets=$((resets + 1))
  # Until it goes on.
  goal=$(($(writes) + 20))
  until has_written $goal || ! kill -0 $FIO 2>/dev/null; do sleep 0.05; done
done
check "fio has verified what it wrote" verified
check "twelve times" test $resets -eq 12
# shellcheck disable=SC2086
check "no drive was lost" zoneweave array status --check $DRIVES
check "the server stops" stop_serving
# shellcheck disable=SC2086
check "the array is in order" zoneweave array check $DRIVES
