//! The metadata of a server.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{find, labels};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The maximum number of items of a server's metadata.
const ITEMS_MAX: usize = 128;

/// Parses an object of metadata.
pub(crate) fn parse(path: &str, value: &Value) -> ApiResult<BTreeMap<String, String>> {
    let pairs = fields::parse_texts(path, value, fields::is_key, 255)?;
    let metadata = pairs.into_iter().collect();
    check_count(path, &metadata)?;
    Ok(metadata)
}

fn check_count(path: &str, metadata: &BTreeMap<String, String>) -> ApiResult<()> {
    if metadata.len() > ITEMS_MAX {
        let message = format!("{path}: a server has at most {ITEMS_MAX} items of metadata");
        return Err(ApiError::forbidden(message));
    }
    Ok(())
}

async fn read_metadata(
    request: &RoutedRequest<'_>,
    rule: Rule,
) -> ApiResult<BTreeMap<String, String>> {
    let reading = request.read(|control, views| {
        let server = find(request, control, views, rule)?;
        Ok(labels::of_server(&server).metadata)
    });
    reading.await
}

fn reply(metadata: &BTreeMap<String, String>) -> ApiResult<Reply> {
    Reply::value(200, &json!({"metadata": metadata}))
}

fn parse_body(body: &Value) -> ApiResult<BTreeMap<String, String>> {
    let mut parser = ObjectParser::of_body(body)?;
    let metadata = parse("metadata", parser.take_required("metadata")?)?;
    parser.finish()?;
    Ok(metadata)
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    reply(&read_metadata(request, Rule::ServerMetadataIndex).await?)
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = request.parameter("key");
    let metadata = read_metadata(request, Rule::ServerMetadataShow).await?;
    let value = metadata.get(key);
    let value = value.ok_or_else(|| error::missing("metadata item", key))?;
    let pair: BTreeMap<_, _> = [(key, value)].into();
    Reply::value(200, &json!({"meta": pair}))
}

/// Adds items, or replaces their values.
pub(crate) async fn add(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let metadata = parse_body(&body)?;
    let labels = labels::change(request, Rule::ServerMetadataCreate, |labels| {
        labels.metadata.extend(metadata.clone());
        check_count("metadata", &labels.metadata)
    });
    reply(&labels.await?.metadata)
}

pub(crate) async fn replace(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let metadata = parse_body(&body)?;
    let labels = labels::change(request, Rule::ServerMetadataUpdateAll, |labels| {
        labels.metadata.clone_from(&metadata);
        Ok(())
    });
    reply(&labels.await?.metadata)
}

pub(crate) async fn set(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = request.parameter("key");
    let body = request.json()?;
    let mut parser = ObjectParser::of_body(&body)?;
    let metadata = parse("meta", parser.take_required("meta")?)?;
    parser.finish()?;
    if metadata.len() != 1 || !metadata.contains_key(key) {
        let message = format!("it must have the one key {key:?} of the path");
        return Err(ApiError::field("meta", message));
    }
    let labels = labels::change(request, Rule::ServerMetadataUpdate, |labels| {
        labels.metadata.extend(metadata.clone());
        check_count("meta", &labels.metadata)
    });
    labels.await?;
    Reply::value(200, &json!({"meta": metadata}))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let key = request.parameter("key");
    let labels = labels::change(request, Rule::ServerMetadataDelete, |labels| {
        match labels.metadata.remove(key) {
            Some(_) => Ok(()),
            None => Err(error::missing("metadata item", key)),
        }
    });
    labels.await?;
    Ok(Reply::empty(204))
}
