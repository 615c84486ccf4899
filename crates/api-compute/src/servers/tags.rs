//! The tags of a server (from version 2.26 on).

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{find, labels};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The maximum number of tags of a server.
pub(super) const TAGS_MAX: usize = 50;

/// Parses a list of tags.
pub(crate) fn parse(path: &str, value: &Value) -> ApiResult<Vec<String>> {
    let items = fields::parse_list(path, value, TAGS_MAX)?;
    let mut tags = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = item
            .as_str()
            .ok_or_else(|| fields::type_error(&path, "a text", item))?;
        check_tag(&path, text)?;
        tags.push(text.to_owned());
    }
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > TAGS_MAX {
        let message = format!("a server has at most {TAGS_MAX} tags");
        return Err(ApiError::field(path, message));
    }
    Ok(tags)
}

fn check_tag(path: &str, tag: &str) -> ApiResult<()> {
    if !(1..=60).contains(&tag.chars().count()) || tag.contains(['/', ',']) {
        let message = "a tag has 1 to 60 characters, and neither / nor , among them";
        return Err(ApiError::field(path, message));
    }
    Ok(())
}

async fn read_tags(request: &RoutedRequest<'_>, rule: Rule) -> ApiResult<Vec<String>> {
    let reading = request.read(|control, views| {
        let server = find(request, control, views, rule)?;
        Ok(labels::of_server(&server).tags)
    });
    reading.await
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tags = read_tags(request, Rule::ServerTagsIndex).await?;
    Reply::value(200, &json!({"tags": tags}))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = request.parameter("tag");
    let tags = read_tags(request, Rule::ServerTagsShow).await?;
    if tags.iter().any(|server_tag| server_tag == tag) {
        Ok(Reply::empty(204))
    } else {
        Err(error::missing("tag", tag))
    }
}

pub(crate) async fn add(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = request.parameter("tag");
    check_tag("tag", tag)?;
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServerTagsUpdate)?;
        Ok(labels::of_server(&server)
            .tags
            .iter()
            .any(|server_tag| server_tag == tag))
    });
    if reading.await? {
        return Ok(Reply::empty(204));
    }
    labels::change(request, Rule::ServerTagsUpdate, |labels| {
        if labels.tags.len() >= TAGS_MAX {
            let message = format!("A server has at most {TAGS_MAX} tags.");
            return Err(ApiError::bad_request(message));
        }
        if let Err(index) = labels
            .tags
            .binary_search_by(|server_tag| server_tag.as_str().cmp(tag))
        {
            labels.tags.insert(index, tag.to_owned());
        }
        Ok(())
    })
    .await?;
    let path = format!("/servers/{}/tags/{tag}", request.parameter("server_id"));
    Ok(Reply::empty(201).with_location(request.link(&path)))
}

pub(crate) async fn replace(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut parser = ObjectParser::of_body(&body)?;
    let tags = parse("tags", parser.take_required("tags")?)?;
    parser.finish()?;
    labels::change(request, Rule::ServerTagsUpdateAll, |labels| {
        labels.tags.clone_from(&tags);
        Ok(())
    })
    .await?;
    Reply::value(200, &json!({"tags": tags}))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = request.parameter("tag");
    labels::change(request, Rule::ServerTagsDelete, |labels| {
        let before = labels.tags.len();
        labels.tags.retain(|server_tag| server_tag != tag);
        if labels.tags.len() == before {
            return Err(error::missing("tag", tag));
        }
        Ok(())
    })
    .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn clear(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    labels::change(request, Rule::ServerTagsDeleteAll, |labels| {
        labels.tags.clear();
        Ok(())
    })
    .await?;
    Ok(Reply::empty(204))
}
