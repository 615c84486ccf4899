# Run by `run --boot` in namespaces of its own: prepares what the units find on a machine, and becomes systemd.
#   boot.sh REPOSITORY PROGRAM FOLDER
set -eu
root=$1 program=$2 folder=$3

mount -t tmpfs tmpfs /run
mkdir -p /run/test/units /run/systemd/system
# Machines have these; what is written here nobody else sees.
cp -a /etc /run/test/etc
mount --bind /run/test/etc /etc
rm -rf /etc/placewright
mount -t tmpfs tmpfs /var/lib
cp "$program" /run/test/placewright
for user in placewright-cell placewright-agent; do
    useradd --system --home-dir "/var/lib/$user" --shell /usr/sbin/nologin "$user"
    install -d -m 0700 -o "$user" -g "$user" "/var/lib/$user"
done

for unit in "$root"/packaging/*.service; do
    name=$(basename "$unit")
    sed "s,/usr/bin/placewright,/run/test/placewright," "$unit" > "/run/test/units/$name"
    mkdir "/run/test/units/$name.d"
    printf '[Service]\nStandardOutput=append:/run/test/%s.log\nStandardError=inherit\n' "${name%.service}" \
        > "/run/test/units/$name.d/log.conf"
done
# What units wait for on a machine; here it is all there.
for target in sysinit basic network-online shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' > "/run/test/units/$target.target"
done
cat > /run/test/units/test.target <<UNIT
[Unit]
Wants=inside.service
UNIT
cat > /run/test/units/inside.service <<UNIT
[Service]
Type=oneshot
ExecStart=/usr/bin/env python3 $root/tests/units/inside.py /run/test/placewright $folder
Environment=PATH=$PATH
StandardOutput=append:$folder/inside.log
StandardError=inherit
UNIT
exec env -i container=test SYSTEMD_UNIT_PATH=/run/test/units SYSTEMD_LOG_TARGET=console PATH="$PATH" \
    /lib/systemd/systemd --system --unit=test.target
