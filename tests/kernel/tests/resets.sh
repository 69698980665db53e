# A controller is reset under load, again and again. The drives' devices are such as several controllers may share: while the
# only one is away, these fail at once whatever is asked of them.
# drives: sharedzns sharedzns sharedzns sharedzns
# modules: ublk_drv
# tools: fio
# limit: 900

DRIVES="/drives/sharedzns0 /drives/sharedzns1 /drives/sharedzns2 /drives/sharedzns3"
DISK=/dev/ublkb0
ARRAY=vol0

# As the serial number of the first drive tells which controller is whose, though not in which order.
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
fio_verifies $DISK --io_size=64M --loops=3 >/tmp/fio.log 2>&1 &
FIO=$!
writes_more 50
resets=0
while [ $resets -lt 6 ] && kill -0 $FIO 2>/dev/null; do
  check "controller 0 is reset" reset 0
  resets=$((resets + 1))
  # Until it goes on.
  goal=$(($(writes) + 20))
  until has_written $goal || ! kill -0 $FIO 2>/dev/null; do sleep 0.05; done
done
check "fio has verified what it wrote" verified
check "six times" test $resets -eq 6
# QEMU may answer a flush with an internal error then, and a drive that fails one is out of service.
if zoneweave array status --check $DRIVES; then note "no drive was lost"; else note "the drive was lost"; fi
check "the server stops" stop_serving
