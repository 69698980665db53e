# An array of four zoned drives as a disk of the kernel: ext4 and xfs on it, crashes of the whole machine in the midst
# of writing, a drive pulled out under load and another one in its place.
# drives: zns zns zns zns zns disk
# modules: ublk_drv crc32c_generic ext4 xfs
# tools: mkfs.ext4 e2fsck mkfs.xfs xfs_repair fio tagged_blocks
# limit: 1500

ARRAY=vol0
DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
JOURNAL=/drives/disk0
array_lives /drives/zns4 c2
