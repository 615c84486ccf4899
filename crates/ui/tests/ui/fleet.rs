//! The stream of the fleet: what is there, what changes, and where it goes on after a break.

use crate::common::{ADMIN, Follower, Site, host};

/// The most pages that may follow the fleet at a time.
const FOLLOWERS_MAX: usize = 256;

#[tokio::test]
async fn a_page_gets_all_hosts_and_then_what_changes() {
    let site = Site::start().await;
    for number in 1..=5 {
        site.add_host(number).await;
    }
    let mut page = Follower::start(&site, "").await;
    page.until(|page| page.hosts.len() == 5 && !page.place.is_empty())
        .await;
    // What rarely changes comes once: the names, and for each class the capacity, the total and the reserved amount.
    assert!(
        page.received
            .contains(r#"[["VCPU",24,8,2],["MEMORY_MB",8192,8192,0]]"#)
    );
    assert!(page.received.contains(r#""host-1""#));
    assert_eq!(page.numbers(3), [0, 0, 0, 0, 0]);
    assert_eq!(site.claim(3, 1, 4).await, 204);
    page.until(|page| page.numbers(3) == [0, 0, 1, 4, 0]).await;
    assert_eq!(page.rows.0, 5, "names come once");
    site.add_host(6).await;
    page.until(|page| page.hosts.len() == 6).await;
    let path = format!("/ui/api/placement/resource_providers/{}", host(6));
    assert_eq!(site.send("DELETE", &path, ADMIN, "").await.status, 204);
    page.until(|page| page.hosts.len() == 5).await;
}

#[tokio::test]
async fn after_a_break_a_page_gets_what_changed_meanwhile_and_nothing_else() {
    let site = Site::start().await;
    for number in 1..=20 {
        site.add_host(number).await;
    }
    let mut page = Follower::start(&site, "").await;
    page.until(|page| page.hosts.len() == 20 && !page.place.is_empty())
        .await;
    let (place, hosts) = (page.place.clone(), page.hosts.clone());
    drop(page);
    assert_eq!(site.claim(7, 1, 3).await, 204);
    let mut page = Follower::start(&site, &format!("?after={place}")).await;
    page.hosts = hosts;
    page.until(|page| page.numbers(7) == [0, 0, 1, 3, 0]).await;
    assert_eq!((page.resets, page.rows), (0, (0, 1)), "{}", page.received);
}

#[tokio::test]
async fn a_page_of_another_epoch_begins_anew() {
    let site = Site::start().await;
    site.add_host(1).await;
    // The epoch and the version of the last event that a page has had.
    for after in ["1.1", "99999999999999999.5"] {
        let mut page = Follower::start(&site, &format!("?after={after}")).await;
        page.until(|page| page.hosts.len() == 1 && !page.place.is_empty())
            .await;
        assert_eq!(page.resets, 1);
    }
    for bad in ["?after=x", "?after=1", "?after=-1.2", "?other=1"] {
        let answer = site.get(&format!("/ui/api/fleet{bad}"), ADMIN).await;
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn figures_equal_those_of_the_apis() {
    let site = Site::start().await;
    for number in 1..=10 {
        site.add_host(number).await;
    }
    let mut page = Follower::start(&site, "").await;
    for consumer in 1..=60_u32 {
        let (number, cpus) = (1 + consumer * 7 % 10, 1 + consumer % 4);
        site.claim(number, consumer, cpus).await;
        // The figures are compared after each 20th claim.
        if consumer % 20 != 0 {
            continue;
        }
        for number in 1..=10 {
            let path = format!("/ui/api/scheduler/v1/hosts/{}", host(number));
            let shown = site.get(&path, ADMIN).await.json();
            let used = shown["resources"]["VCPU"]["used"].as_i64().unwrap();
            page.until(|page| page.numbers(number).get(3) == Some(&used))
                .await;
            assert_eq!(shown["resources"]["VCPU"]["capacity"], 24);
        }
    }
}

#[tokio::test]
async fn a_page_is_told_when_aggregates_get_other_names_and_when_the_topology_changes() {
    let site = Site::start().await;
    site.add_host(1).await;
    let mut page = Follower::start(&site, "").await;
    page.until(|page| page.hosts.len() == 1 && !page.place.is_empty())
        .await;
    // Any UUID that is not in use serves as that of an aggregate.
    let aggregate = host(9);
    let path = format!("/ui/api/scheduler/v1/aggregates/{aggregate}");
    let levels = format!(r#"{{"levels": [{{"name": "rack", "aggregates": ["{aggregate}"]}}]}}"#);
    for (path, body) in [
        (path.as_str(), r#"{"name": "north"}"#),
        (path.as_str(), r#"{"name": "south"}"#),
        ("/ui/api/scheduler/v1/topology", levels.as_str()),
    ] {
        let before = page.names;
        assert_eq!(site.send("PUT", path, ADMIN, body).await.status, 204);
        page.until(|page| page.names > before).await;
    }
    // When only usage changes, the version of the names stays as it was, so a page does not read them again.
    let before = page.names;
    assert_eq!(site.claim(1, 1, 4).await, 204);
    page.until(|page| page.numbers(1) == [0, 0, 1, 4, 0]).await;
    assert_eq!(page.names, before);
}

#[tokio::test]
async fn names_with_markup_stay_texts() {
    let site = Site::start().await;
    let name = r#"<script>"\u0007"#;
    let body = format!(r#"{{"name": "<script>\"\u0007", "uuid": "{}"}}"#, host(1));
    let path = "/ui/api/placement/resource_providers";
    let made = site.send("POST", path, ADMIN, &body).await;
    assert_eq!(made.status, 201, "{name}");
    let mut page = Follower::start(&site, "").await;
    page.until(|page| page.hosts.len() == 1).await;
    assert!(page.received.contains(r#""<script>\"\u0007""#));
}

#[tokio::test]
async fn too_many_pages_are_refused_and_a_page_that_ends_makes_room() {
    let site = Site::start().await;
    let mut pages = Vec::new();
    for _ in 0..FOLLOWERS_MAX {
        let mut page = Follower::start(&site, "").await;
        // A comment that is the beginning of each stream.
        page.until(|page| page.received.contains(": following"))
            .await;
        pages.push(page);
    }
    assert_eq!(site.get("/ui/api/fleet", ADMIN).await.status, 503);
    pages.clear();
    site.add_host(1).await;
    // The service notices after some time that pages have ended.
    let mut status = 503;
    for _ in 0..200 {
        let stream = site.begin("GET", "/ui/api/fleet", ADMIN, "").await;
        let mut start = [0; b"HTTP/1.1 200".len()];
        let mut stream = stream;
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut start)
            .await
            .unwrap();
        status = if &start == b"HTTP/1.1 200" { 200 } else { 503 };
        if status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(status, 200);
}
