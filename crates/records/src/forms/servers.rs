//! The parts of the bodies of specs other than the request to the scheduler.

use placewright_types::server::{
    NetworkRequest, Networks, NetworksKeyword, OwnFields, ScalarValue, ServerFields,
};

row!(ServerFields {
    flavor_id,
    image,
    reservation_id,
    description,
    metadata,
    tags,
    key_name,
    public_key,
    user_data,
    config_drive,
    networks,
    block_device_mapping_v2,
    security_groups,
    admin_pass,
    access_ip_v4,
    access_ip_v6,
    trusted_image_certificates,
    disk_config;
    secrets_mark,
    request_id,
    traceparent
});
row!(OwnFields {
    launch_index,
    hostname
});
row!(NetworkRequest {
    uuid,
    port,
    fixed_ip,
    tag
});

names!(NetworksKeyword { 0 Auto, 1 None });

choice!(Networks {
    0 Keyword(keyword),
    1 List(list),
});

choice!(ScalarValue {
    0 Null,
    1 Boolean(value),
    2 Integer(number),
    3 Unsigned(number),
    4 Float(number),
    5 Text(text),
});
