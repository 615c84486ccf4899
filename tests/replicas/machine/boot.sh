# Run in namespaces of its own by machines.py: makes a machine out of them, and becomes its systemd.
#   boot.sh NAME FOLDER
# What the machine writes stays in FOLDER/NAME, so that it can be started again. FOLDER/usr has what is installed besides
# the packages of this machine. Everything else of this machine is read-only or hidden before systemd begins.
set -eu
name=$1 folder=$2
# All units that there are, of packages and of systemd. Others of systemd's clear /tmp, or set variables of the kernel.
packaged="etcd.service haproxy.service systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket"

hostname "$name"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/machines /run/units /run/lock
mount --bind "$folder" /run/machines
folder=/run/machines
own=$folder/$name
if [ ! -d "$own" ]; then
    mkdir -p "$own/usr" "$own/work" "$own/root" "$own/var-lib/systemd" "$own/var-log/journal"
    cp -a /etc "$own/etc"
    # A machine that was just installed: no services, no names, nothing of ours.
    rm -rf "$own"/etc/placewright* "$own"/etc/systemd/system "$own"/etc/default/etcd "$own"/etc/haproxy
    mkdir -p "$own/etc/systemd/system" "$own/etc/haproxy"
    echo "127.0.0.1 localhost" >"$own/etc/hosts"
    echo "$name" >"$own/etc/hostname"
    # The directories that packages make.
    cp -a /var/lib/dpkg "$own/var-lib/dpkg"
    install -d -o etcd -g etcd "$own/var-lib/etcd"
    mkdir -p "$own/var-lib/haproxy/dev"
fi
for unit in $packaged; do cp "/lib/systemd/system/$unit" /run/units; done

# Devices of its own, because /dev/log is one.
mkdir /run/dev
mount -t tmpfs -o mode=755 tmpfs /run/dev
for device in null zero full random urandom tty; do
    cp -a "/dev/$device" /run/dev
done
mkdir /run/dev/shm /run/dev/pts
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /run/dev/pts
ln -s pts/ptmx /run/dev/ptmx
ln -s /proc/self/fd /run/dev/fd

mount -t overlay overlay -o "lowerdir=$folder/usr:/usr,upperdir=$own/usr,workdir=$own/work" /usr
mount --bind "$own/etc" /etc
mount --bind "$own/var-lib" /var/lib
mount --bind "$own/var-log" /var/log
mount --bind "$own/root" /root
mount --move /run/dev /dev
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mount -o remount,bind,ro /
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys

# What units wait for on a machine; here it is all there.
for target in sysinit basic network-online network shutdown sockets; do
    printf '[Unit]\nDefaultDependencies=no\n' >"/run/units/$target.target"
done
cat >/run/units/multi-user.target <<UNIT
[Unit]
DefaultDependencies=no
Wants=systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service
UNIT
exec env -i container=test SYSTEMD_UNIT_PATH=/run/units:/etc/systemd/system \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target
