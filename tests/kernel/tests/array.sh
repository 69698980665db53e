# An array of four zoned drives, served to the kernel: ext4 on it, a crash of the whole machine in the midst of writing,
# and everything that was acknowledged afterwards.
# drives: zns zns zns zns disk
# modules: nbd
# tools: nbd-client mkfs.ext4 e2fsck tagged_blocks
# limit: 900

array_survives_crash /drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3
