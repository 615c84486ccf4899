# Shared by the executables beside it; not one itself.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${PLACEWRIGHT_STATE_DIR:?is set by the agent}"
# The descriptions of the nodes, NAME.json, as `describe` prints them.
nodes=${BAREMETAL_NODES:-$PLACEWRIGHT_STATE_DIR/nodes}
# What switches a node on and off: `bmc on|off NODE`. It reads the order when the node is switched on.
bmc=${BAREMETAL_BMC:-$here/bmc}

# The file with the order of the guest that this is about.
if [ -n "${PLACEWRIGHT_INSTANCE:-}" ]; then
    guest=$PLACEWRIGHT_STATE_DIR/deployed/$PLACEWRIGHT_HOST/$PLACEWRIGHT_INSTANCE.$PLACEWRIGHT_GUEST
fi
