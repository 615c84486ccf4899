# Shared by the executables beside it; not one itself.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${PLACEWRIGHT_STATE_DIR:?is set by the agent}"
# Where `setup` puts the kernel and the initial RAM disk of the guests.
images=${QEMU_IMAGES:-$PLACEWRIGHT_STATE_DIR/images}

# The directory of the guest that this is about: its console, its monitor, its process id.
if [ -n "${PLACEWRIGHT_INSTANCE:-}" ]; then
    guest=$PLACEWRIGHT_STATE_DIR/machines/$PLACEWRIGHT_HOST/$PLACEWRIGHT_INSTANCE.$PLACEWRIGHT_GUEST
fi

# Prints the process id of the guest in a directory, if it runs. A number alone proves nothing: it
# may belong to another process by now.
pid_of() {
    [ -s "$1/pid" ] || return 1
    pid=$(cat "$1/pid" 2> /dev/null) || return 1
    tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -qF "$1/console" || return 1
    echo "$pid"
}
