//! The tags of a server (from version 2.26 on).

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{find, labels};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most tags of a server.
pub(super) const TAGS_MAX: usize = 50;

/// Parses a list of tags.
pub(crate) fn read(path: &str, value: &Value) -> ApiResult<Vec<String>> {
    let all = fields::list(path, value, TAGS_MAX)?;
    let mut tags = Vec::with_capacity(all.len());
    for (place, tag) in all.iter().enumerate() {
        let path = format!("{path}[{place}]");
        let text = tag
            .as_str()
            .ok_or_else(|| fields::wrong(&path, "a text", tag))?;
        check(&path, text)?;
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

fn check(path: &str, tag: &str) -> ApiResult<()> {
    if !(1..=60).contains(&tag.chars().count()) || tag.contains(['/', ',']) {
        let message = "a tag has 1 to 60 characters, and neither / nor , among them";
        return Err(ApiError::field(path, message));
    }
    Ok(())
}

async fn of_server(call: &RoutedRequest<'_>, rule: Rule) -> ApiResult<Vec<String>> {
    let read = call.read(|control, views| {
        let seen = find(call, control, views, rule)?;
        Ok(labels::of(&seen).tags)
    });
    read.await
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tags = of_server(call, Rule::ServerTagsIndex).await?;
    Reply::value(200, &json!({"tags": tags}))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = call.parameter("tag");
    let tags = of_server(call, Rule::ServerTagsShow).await?;
    if tags.iter().any(|known| known == tag) {
        Ok(Reply::empty(204))
    } else {
        Err(error::missing("tag", tag))
    }
}

pub(crate) async fn add(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = call.parameter("tag");
    check("tag", tag)?;
    let read = call.try_read(|control, views| {
        let seen = find(call, control, views, Rule::ServerTagsUpdate)?;
        Ok(labels::of(&seen).tags.iter().any(|known| known == tag))
    });
    if read.await? {
        return Ok(Reply::empty(204));
    }
    labels::change(call, Rule::ServerTagsUpdate, |labels| {
        if labels.tags.len() >= TAGS_MAX {
            let message = format!("A server has at most {TAGS_MAX} tags.");
            return Err(ApiError::bad_request(message));
        }
        if let Err(place) = labels
            .tags
            .binary_search_by(|known| known.as_str().cmp(tag))
        {
            labels.tags.insert(place, tag.to_owned());
        }
        Ok(())
    })
    .await?;
    let path = format!("/servers/{}/tags/{tag}", call.parameter("server_id"));
    Ok(Reply::empty(201).with_location(call.link(&path)))
}

pub(crate) async fn replace(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let tags = read("tags", fields.need("tags")?)?;
    fields.finish()?;
    labels::change(call, Rule::ServerTagsUpdateAll, |labels| {
        labels.tags.clone_from(&tags);
        Ok(())
    })
    .await?;
    Reply::value(200, &json!({"tags": tags}))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let tag = call.parameter("tag");
    labels::change(call, Rule::ServerTagsDelete, |labels| {
        let before = labels.tags.len();
        labels.tags.retain(|known| known != tag);
        if labels.tags.len() == before {
            return Err(error::missing("tag", tag));
        }
        Ok(())
    })
    .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn clear(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    labels::change(call, Rule::ServerTagsDeleteAll, |labels| {
        labels.tags.clear();
        Ok(())
    })
    .await?;
    Ok(Reply::empty(204))
}
