//! The rows of images.

use placewright_conductor::super_conductor::{
    Image, ImageContent, Member, MemberStatus, Visibility,
};

row!(Image {
    name,
    owner,
    visibility,
    is_protected,
    is_hidden,
    container_format,
    disk_format,
    min_disk_gb,
    min_ram_mb,
    tags,
    properties,
    members,
    content,
    created_at,
    updated_at,
});
row!(ImageContent { size, md5, sha512 });
row!(Member {
    status,
    created_at,
    updated_at
});

names!(Visibility { 0 Private, 1 Shared, 2 Community, 3 Public });
names!(MemberStatus { 0 Pending, 1 Accepted, 2 Rejected });
