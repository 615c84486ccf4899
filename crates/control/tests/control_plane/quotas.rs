//! Limits of the configuration and of Keystone, and instances of a release without quotas.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::quota::{Limits, Resource, UNLIMITED};
use placewright_control::{LimitSource, UnifiedLimits};
use placewright_testing::site::{Site, Stores};

fn limits(all: &[(Resource, i64)]) -> Limits {
    all.iter().cloned().collect()
}

async fn instance_limit(site: &Site, project: &'static str) -> i64 {
    let read = |control: &placewright_conductor::ControlState, _: &_| {
        control
            .conductor
            .quota_limit(Some(project), &Resource::Instances)
    };
    site.conductor.read(read).await
}

#[tokio::test]
async fn limits_come_from_the_configuration_or_from_keystone() {
    // One cell with two hosts.
    let site = Site::start(Stores::Memory, 1, 2, Arc::default()).await;
    let control = &site.conductor;
    assert_eq!(instance_limit(&site, "p").await, UNLIMITED);
    let ten = limits(&[(Resource::Instances, 10)]);
    control
        .configure_quotas(ten.clone(), LimitSource::Configuration)
        .await
        .unwrap();
    assert_eq!(instance_limit(&site, "p").await, 10);
    let sequence = control.engine().durable_sequence();
    control
        .configure_quotas(ten.clone(), LimitSource::Configuration)
        .await
        .unwrap();
    assert_eq!(control.engine().durable_sequence(), sequence);
    // Until Keystone's limits are known there can be no servers; from then on Keystone's limits hold.
    control
        .configure_quotas(ten.clone(), LimitSource::Keystone)
        .await
        .unwrap();
    assert_eq!(instance_limit(&site, "p").await, 0);
    let of_projects = |all: &[(&str, i64)]| UnifiedLimits {
        registered: limits(&[(Resource::Instances, 5)]),
        projects: BTreeMap::from_iter(all.iter().map(|(project, limit)| {
            let limits = limits(&[(Resource::Instances, *limit)]);
            ((*project).to_owned(), limits)
        })),
    };
    let unified = of_projects(&[("p", 7), ("q", UNLIMITED)]);
    control.set_unified_limits(unified.clone()).await.unwrap();
    assert_eq!(instance_limit(&site, "p").await, 7);
    assert_eq!(instance_limit(&site, "q").await, UNLIMITED);
    assert_eq!(instance_limit(&site, "r").await, 5);
    let sequence = control.engine().durable_sequence();
    control.set_unified_limits(unified).await.unwrap();
    // After a start with the same configuration, the limits that were last read from Keystone still hold.
    control
        .configure_quotas(ten.clone(), LimitSource::Keystone)
        .await
        .unwrap();
    assert_eq!(control.engine().durable_sequence(), sequence);
    assert_eq!(instance_limit(&site, "p").await, 7);
    control.set_unified_limits(of_projects(&[])).await.unwrap();
    assert_eq!(instance_limit(&site, "p").await, 5);
    control
        .set_unified_limits(UnifiedLimits::default())
        .await
        .unwrap();
    assert_eq!(instance_limit(&site, "p").await, 0);
    control
        .configure_quotas(Limits::new(), LimitSource::Configuration)
        .await
        .unwrap();
    assert_eq!(instance_limit(&site, "p").await, UNLIMITED);
}

#[tokio::test]
async fn instances_that_were_never_counted_are_counted_once() {
    let site = Site::start(Stores::Memory, 1, 8, Arc::default()).await;
    let control = &site.conductor;
    site.create(0..450, 1).await;
    let options = site
        .runtime
        .scheduler()
        .with_state(|scheduler, _| scheduler.translate_options());
    let usage = |control: &placewright_conductor::ControlState, _: &_| {
        control.conductor.listing().usage("p").cloned().unwrap()
    };
    let before = control.read(usage).await;
    assert_eq!((before.instances, before.cores), (450, 0));
    let counted = control.count_uncounted_instances(&options).await.unwrap();
    assert_eq!(counted, 450);
    let after = control.read(usage).await;
    assert_eq!(
        (after.instances, after.cores, after.ram_mb),
        (450, 450, 450 * 512)
    );
    assert_eq!(after.amount(&Resource::Class("VCPU".into())), 450);
    assert_eq!(
        control.count_uncounted_instances(&options).await.unwrap(),
        0
    );
}
