//! The metadata of a server.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{find, labels};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most items of a server's metadata.
const ITEMS_MAX: usize = 128;

/// Parses an object of metadata.
pub(crate) fn read(path: &str, value: &Value) -> ApiResult<BTreeMap<String, String>> {
    let pairs = fields::texts(path, value, fields::is_key, 255)?;
    let metadata = pairs.into_iter().collect();
    check(path, &metadata)?;
    Ok(metadata)
}

fn check(path: &str, metadata: &BTreeMap<String, String>) -> ApiResult<()> {
    if metadata.len() > ITEMS_MAX {
        let message = format!("{path}: a server has at most {ITEMS_MAX} items of metadata");
        return Err(ApiError::forbidden(message));
    }
    Ok(())
}

async fn of_server(call: &RoutedRequest<'_>, rule: Rule) -> ApiResult<BTreeMap<String, String>> {
    let read = call.read(|control, views| {
        let seen = find(call, control, views, rule)?;
        Ok(labels::of(&seen).metadata)
    });
    read.await
}

fn reply(metadata: &BTreeMap<String, String>) -> ApiResult<Reply> {
    Reply::value(200, &json!({"metadata": metadata}))
}

fn parsed(body: &Value) -> ApiResult<BTreeMap<String, String>> {
    let mut fields = ObjectParser::of_body(body)?;
    let metadata = read("metadata", fields.need("metadata")?)?;
    fields.finish()?;
    Ok(metadata)
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    reply(&of_server(call, Rule::ServerMetadataIndex).await?)
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = call.parameter("key");
    let metadata = of_server(call, Rule::ServerMetadataShow).await?;
    let value = metadata.get(key);
    let value = value.ok_or_else(|| error::missing("metadata item", key))?;
    let pair: BTreeMap<_, _> = [(key, value)].into();
    Reply::value(200, &json!({"meta": pair}))
}

/// Adds or replaces items.
pub(crate) async fn add(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let parsed = parsed(&body)?;
    let after = labels::change(call, Rule::ServerMetadataCreate, |labels| {
        labels.metadata.extend(parsed.clone());
        check("metadata", &labels.metadata)
    });
    reply(&after.await?.metadata)
}

pub(crate) async fn replace(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let parsed = parsed(&body)?;
    let after = labels::change(call, Rule::ServerMetadataUpdateAll, |labels| {
        labels.metadata.clone_from(&parsed);
        Ok(())
    });
    reply(&after.await?.metadata)
}

pub(crate) async fn set(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = call.parameter("key");
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let parsed = read("meta", fields.need("meta")?)?;
    fields.finish()?;
    if parsed.len() != 1 || !parsed.contains_key(key) {
        let message = format!("it must have the one key {key:?} of the path");
        return Err(ApiError::field("meta", message));
    }
    let after = labels::change(call, Rule::ServerMetadataUpdate, |labels| {
        labels.metadata.extend(parsed.clone());
        check("meta", &labels.metadata)
    });
    after.await?;
    Reply::value(200, &json!({"meta": parsed}))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = call.parameter("key");
    let after = labels::change(call, Rule::ServerMetadataDelete, |labels| {
        match labels.metadata.remove(key) {
            Some(_) => Ok(()),
            None => Err(error::missing("metadata item", key)),
        }
    });
    after.await?;
    Ok(Reply::empty(204))
}
