//! The image that a new installation of `placewright up` has, so that servers can be created at once. Simulated hosts
//! boot nothing, so the image is empty.

use anyhow::Context as _;
use placewright_api_image::ImageFolder;
use placewright_conductor::super_conductor::{Command, Image, Visibility};
use placewright_control::ControlHandle;
use uuid::Uuid;

use crate::options::Options;

/// The UUID of the image, which the examples name.
const ID: Uuid = Uuid::from_u128(0x70ac_e000_0000_4000_8000_0000_0000_0001);

/// Makes the image, if the installation is new. If somebody deletes the image, it is not made again.
///
/// # Errors
///
/// The file, or the journal, cannot be written.
pub(super) async fn ensure(options: &Options, control: &ControlHandle) -> anyhow::Result<()> {
    let (Some(_), Some(folder)) = (options.image.listen, options.image.folder.clone()) else {
        return Ok(());
    };
    let is_new = control
        .read(|state, _| state.conductor.cells().is_empty() && state.conductor.images().is_empty());
    if !is_new.await {
        return Ok(());
    }
    let write = move || {
        let folder = ImageFolder::open(folder)?;
        anyhow::Ok(folder.put(ID, &[])?)
    };
    let content = tokio::task::spawn_blocking(write).await?;
    let now = control.now();
    let image = Image {
        name: Some("demo".to_owned()),
        owner: "admin".to_owned(),
        visibility: Visibility::Public,
        is_protected: false,
        is_hidden: false,
        container_format: Some("bare".to_owned()),
        disk_format: Some("raw".to_owned()),
        min_disk_gb: 0,
        min_ram_mb: 0,
        tags: [].into(),
        properties: [].into(),
        members: [].into(),
        content: Some(content.context("the demo image cannot be written")?),
        created_at: now,
        updated_at: now,
    };
    let image = Some(Box::new(image));
    control
        .submit(Command::SetImage { id: ID, image })
        .await??;
    Ok(())
}
