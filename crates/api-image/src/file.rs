//! `/v2/images/{image_id}/file`: the bytes of an image.

use std::fs::File;
use std::io;

use hyper::header::{HeaderName, HeaderValue};
use placewright_auth::{Identity, Rule};
use placewright_conductor::super_conductor::{Image, LimitCheck, Refusal};
use placewright_engine::Reading;
use placewright_http::{ApiError, ApiResult, Body, BodySink, FileBody, Reply, content_type};
use uuid::Uuid;

use crate::access::Viewer;
use crate::request::{ApiState, CHANGE_TRIES_MAX, NotSubmitted, RoutedRequest};
use crate::upload::{self, Inbox, Received, Upload};
use crate::{error, images};

/// The type of the bytes.
const MEDIA_TYPE: &str = "application/octet-stream";

/// The header with the MD5 of the bytes, in the hexadecimal digits that clients of this API expect there.
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Checks the type of an upload.
///
/// # Errors
///
/// 415 for another type than [`MEDIA_TYPE`].
pub(crate) fn check_media_type(headers: &hyper::HeaderMap) -> ApiResult<()> {
    match content_type(headers) {
        MEDIA_TYPE => Ok(()),
        other => Err(ApiError::new(
            415,
            format!("The content type is {other:?}; it must be {MEDIA_TYPE}."),
        )),
    }
}

/// Begins an upload, and returns the sink for its bytes. `declared` is the length in bytes that the client declared, if
/// it did. The image, and the bytes of its project's other images, are checked again when all bytes have arrived.
///
/// # Errors
///
/// The caller may not upload to the image, the image has its bytes already, too many uploads are under way, or the
/// declared length exceeds a limit.
pub(crate) fn begin(
    api_state: &ApiState,
    identity: &Identity,
    id: Uuid,
    declared: Option<u64>,
    inbox: &Inbox,
) -> ApiResult<Box<dyn BodySink>> {
    let viewer = Viewer {
        project: identity.project_id().unwrap_or(""),
        is_administrator: api_state.is_administrator(identity),
    };
    let look_up = |state: &placewright_conductor::ControlState| {
        let image = state.conductor.images().get(&id);
        let image = image.ok_or_else(|| error::image_not_found(id))?;
        viewer.check_changes(id, image)?;
        check_queued(id, image)?;
        let usage = state.conductor.listing().image_usage(&image.owner);
        Ok((image.owner.clone(), usage.bytes))
    };
    let control = &api_state.control;
    // What was read is checked again at the end of the upload, so it need not be durable.
    let looked_up: ApiResult<(String, u64)> =
        control.read_part(&mut Reading::default(), |state, _| look_up(state));
    let (owner, bytes_in_use) = looked_up?;
    api_state.authorize(identity, Rule::ImagesUpload, &owner)?;
    let transfer = api_state.uploads.begin(&owner)?;
    let to = (api_state.folder.clone(), api_state.options.limits.clone());
    let upload = Upload::begin(to, transfer, bytes_in_use, declared, inbox.clone())?;
    Ok(Box::new(upload))
}

/// Checks that an image waits for its bytes: it is not active yet.
fn check_queued(id: Uuid, image: &Image) -> ApiResult<()> {
    if image.content.is_none() {
        return Ok(());
    }
    let detail = format!("Image {id} has its bytes already, which never change.");
    Err(ApiError::conflict(detail))
}

/// Gives an image the bytes that were received.
pub(crate) async fn upload(request: &RoutedRequest<'_>, inbox: &Inbox) -> ApiResult<Reply> {
    let received = inbox.lock().take();
    let Some(received) = received else {
        return Err(ApiError::bad_request("The image has no bytes."));
    };
    let Received {
        file,
        content,
        _transfer,
    } = received;
    let (id, folder) = (request.image, request.api_state.folder.clone());
    let finished = upload::run(move || match folder.finish(file, id) {
        // False: the image has a file already.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        finished => finished.map(|()| true),
    });
    if !finished.await? {
        return Err(ApiError::conflict(format!(
            "Another upload to image {id} was faster, or ended with its process: look whether the \
             image is active, or delete it and make it anew."
        )));
    }
    if let Err(failure) = activate(request, content).await {
        // The image stays without bytes, so that another upload is possible; but if it may be active, it needs its file.
        if !failure.may_have_had_effect {
            let folder = request.api_state.folder.clone();
            upload::run(move || folder.remove(id)).await?;
        }
        return Err(failure.error);
    }
    Ok(Reply::empty(204))
}

/// Makes an image active by recording the size and hashes of its bytes, unless the limit of its project is exceeded.
async fn activate(
    request: &RoutedRequest<'_>,
    content: placewright_conductor::super_conductor::ImageContent,
) -> Result<(), NotSubmitted> {
    let id = request.image;
    for _ in 0..CHANGE_TRIES_MAX {
        let known = images::visible(request).await?;
        check_queued(id, &known)?;
        let check = LimitCheck::ImageBytes {
            project: known.owner.clone(),
            added: content.size,
            max: request.api_state.options.limits.project_bytes_max,
        };
        let next = Image {
            content: Some(content.clone()),
            updated_at: request.now(),
            ..known.clone()
        };
        let answer = request
            .api_state
            .set_image(id, Some(known), Some(next), vec![check]);
        match answer.await? {
            Ok(_) => return Ok(()),
            // Another change of the image was faster: read the image again.
            Err(Refusal::Changed) => {}
            Err(refusal) => return Err(error::from_refusal(&refusal).into()),
        }
    }
    Err(error::changed_by_others().into())
}

/// The response with the bytes of an image, or 204 if it has none yet.
pub(crate) async fn download(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesDownload, request.project())?;
    let image = images::visible(request).await?;
    let Some(content) = image.content else {
        return Ok(Reply::empty(204));
    };
    let transfer = request.api_state.downloads.begin(request.project())?;
    let path = request.api_state.folder.path_of(request.image);
    let opened = tokio::task::spawn_blocking(move || {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        io::Result::Ok((file, size))
    });
    let file = match opened.await {
        Ok(Ok((file, size))) if size == content.size => file,
        _ => {
            tracing::error!(image = %request.image, "the bytes of an image are missing");
            let detail = "The bytes of the image are missing in the folder of images.";
            return Err(ApiError::new(500, detail));
        }
    };
    let body = Body::File(FileBody::new(file, content.size, transfer));
    let reply = Reply {
        body,
        content_type: Some(MEDIA_TYPE),
        ..Reply::empty(200)
    };
    let md5 = HeaderValue::from_str(&content.md5);
    Ok(match md5 {
        Ok(md5) => reply.with_header(CONTENT_MD5, md5),
        Err(_) => reply,
    })
}
