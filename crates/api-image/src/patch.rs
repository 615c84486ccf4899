//! `PATCH /v2/images/{image_id}`: a list of changes, of which all are made or none.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Image;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::Value;

use crate::access::Viewer;
use crate::request::RoutedRequest;
use crate::{attributes, create, properties, view};

/// The type of the body.
pub(crate) const MEDIA_TYPE: &str = "application/openstack-images-v2.1-json-patch";

/// The most changes of one request.
const OPERATIONS_MAX: usize = 256;

/// One change.
enum Operation<'a> {
    /// Sets an attribute or a property. If `replaces`, a property has to be there already.
    Set {
        name: String,
        value: &'a Value,
        replaces: bool,
    },
    Remove {
        name: String,
    },
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let operations = parse(&body)?;
    let viewer = Viewer::of(request);
    let change = |known: &Image| {
        viewer.check_changes(request.image, known)?;
        request.authorize(Rule::ImagesUpdate, &known.owner)?;
        let mut image = known.clone();
        for operation in &operations {
            apply(&mut image, operation)?;
        }
        properties::check(&image.properties)?;
        if image.owner != known.owner {
            create::check_owner(request, &image.owner)?;
        }
        if image.visibility != known.visibility {
            create::check_visibility(request, &image)?;
        }
        image.updated_at = request.now();
        let shown = view::image(request.image, &image);
        Ok((Some(image), shown))
    };
    let shown = request.change_image(change).await?;
    Reply::value(200, &shown)
}

fn parse(body: &Value) -> ApiResult<Vec<Operation<'_>>> {
    let items = body
        .as_array()
        .ok_or_else(|| ApiError::bad_request("The body must be a list of changes."))?;
    if items.len() > OPERATIONS_MAX {
        let detail = format!("The body must have at most {OPERATIONS_MAX} changes.");
        return Err(ApiError::bad_request(detail));
    }
    let operations = items.iter().enumerate();
    operations
        .map(|(index, item)| parse_operation(index, item))
        .collect()
}

fn parse_operation(index: usize, item: &Value) -> ApiResult<Operation<'_>> {
    let error = |message: &str| ApiError::field(&format!("[{index}]"), message);
    let text = |key: &str| item.get(key).and_then(Value::as_str);
    let (Some(operation), Some(path)) = (text("op"), text("path")) else {
        return Err(error("it must have op and path, which are texts"));
    };
    let name = parse_path(path).ok_or_else(|| {
        error("path: it must be a slash and the name of an attribute or a property")
    })?;
    let replaces = match operation {
        "add" => false,
        "replace" => true,
        "remove" => return Ok(Operation::Remove { name }),
        _ => return Err(error("op: it must be add, replace or remove")),
    };
    let value = item
        .get("value")
        .ok_or_else(|| error("value: it is missing"))?;
    Ok(Operation::Set {
        name,
        value,
        replaces,
    })
}

/// The name in a JSON pointer to a member of the top level; `None` if the text is not such a pointer.
fn parse_path(path: &str) -> Option<String> {
    let name = path.strip_prefix('/')?;
    let is_name = !name.is_empty() && !name.contains('/');
    is_name.then(|| name.replace("~1", "/").replace("~0", "~"))
}

fn apply(image: &mut Image, operation: &Operation<'_>) -> ApiResult<()> {
    let is_property =
        |name: &str| !attributes::BASE.contains(&name) && !attributes::READ_ONLY.contains(&name);
    match operation {
        Operation::Set {
            name,
            value,
            replaces,
        } => {
            if *replaces && is_property(name) && !image.properties.contains_key(name) {
                return Err(no_property(name));
            }
            attributes::set(image, name, value)
        }
        Operation::Remove { name } if is_property(name) => {
            let removed = image.properties.remove(name);
            removed.map(drop).ok_or_else(|| no_property(name))
        }
        Operation::Remove { name } => {
            let detail = format!("{name}: it is an attribute, which cannot be removed.");
            Err(ApiError::forbidden(detail).with_field(name.clone()))
        }
    }
}

fn no_property(name: &str) -> ApiError {
    ApiError::conflict(format!("{name}: the image has no such property.")).with_field(name)
}
