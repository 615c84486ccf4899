//! Policies: the defaults, overrides in a file, and the reports of mistakes in it.

use std::path::Path;

use placewright_auth::{
    Forbidden, ForbiddenReason, Identity, IdentityParts, Policy, PolicyConfig, PolicyWarning, Rule,
    Scope, Target, sample_policy,
};

/// The number of rules that only other rules refer to, such as `admin_api`.
const BASE_RULES_COUNT: usize = 9;

fn caller(roles: &[&str]) -> IdentityParts {
    IdentityParts {
        user_id: Some("u1".to_owned()),
        project_id: Some("p1".to_owned()),
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
        is_admin_project: true,
        ..IdentityParts::default()
    }
}

fn load(text: &str) -> Result<(Policy, Vec<PolicyWarning>), String> {
    Policy::from_text(&PolicyConfig::default(), Path::new("p.yaml"), text)
        .map_err(|error| error.to_string())
}

/// Whether a caller may list traits when the policy file has `check` as that rule.
fn allows(check: &str, parts: IdentityParts) -> bool {
    let text = format!(
        "\"placement:traits:list\": {}",
        serde_json::to_string(check).unwrap()
    );
    let (policy, _) = load(&text).unwrap();
    policy
        .authorize_own(Rule::TraitsList, &Identity::new(parts))
        .is_ok()
}

/// The message for a file with `check` as the rule of listing traits.
fn error_for(check: &str) -> String {
    load(&format!("placement:traits:list: {check}")).unwrap_err()
}

#[test]
fn defaults_allow_what_the_profiles_of_the_conformance_suite_expect() {
    // The profiles secure-rbac and legacy-rbac of tests/conformance: only the second one lets administrators reshape.
    for (enforce_new_defaults, admin_reshapes) in [(true, false), (false, true)] {
        let config = PolicyConfig {
            enforce_new_defaults,
            ..PolicyConfig::default()
        };
        let (policy, warnings) = Policy::load(&config).unwrap();
        assert!(warnings.is_empty());
        let of_placement = Rule::ALL
            .iter()
            .filter(|rule| !rule.is_of_compute() && !rule.is_of_image());
        for &rule in of_placement {
            let is_allowed = |roles: &[&str], target: &Target<'_>| {
                policy
                    .authorize(rule, &Identity::new(caller(roles)), target)
                    .is_ok()
            };
            let (own_project, other_project) =
                (Target::project(Some("p1")), Target::project(Some("p2")));
            let is_admin_allowed = rule != Rule::ReshaperReshape || admin_reshapes;
            assert_eq!(
                is_allowed(&["admin"], &other_project),
                is_admin_allowed,
                "{rule}"
            );
            assert_eq!(
                is_allowed(&["Admin"], &other_project),
                is_admin_allowed,
                "{rule}"
            );
            // Repairs and replicas are for administrators only: the fault that is repaired may be one of a service. So
            // are states of the past, which cost as much memory as the state itself.
            let is_service_allowed = !matches!(
                rule,
                Rule::AuditRepair | Rule::ReplicasManage | Rule::PastShow
            );
            assert_eq!(
                is_allowed(&["service"], &other_project),
                is_service_allowed,
                "{rule}"
            );
            assert_eq!(
                is_allowed(&["member", "reader"], &own_project),
                rule == Rule::TotalUsages,
                "{rule}"
            );
            assert!(!is_allowed(&["member", "reader"], &other_project), "{rule}");
            assert!(!is_allowed(&["reader"], &Target::project(None)), "{rule}");
            assert!(!is_allowed(&[], &own_project), "{rule}");
        }
    }
}

#[test]
fn defaults_of_the_compute_api_differ_for_administrators_members_readers_and_owners() {
    let (policy, _) = Policy::load(&PolicyConfig::default()).unwrap();
    let is_allowed = |rule, roles: &[&str], project: &str, user: &str| {
        let target = Target::project(Some(project)).with("user_id", Some(user));
        let caller = Identity::new(caller(roles));
        policy.authorize(rule, &caller, &target).is_ok()
    };
    for &rule in Rule::ALL
        .iter()
        .filter(|rule| rule.is_of_compute() || rule.is_of_image())
    {
        assert!(is_allowed(rule, &["admin"], "p2", "u2"), "{rule}");
        let is_open = rule.default().check == "@";
        assert_eq!(is_allowed(rule, &[], "p2", "u2"), is_open, "{rule}");
        assert_eq!(
            is_allowed(rule, &["service"], "p2", "u2"),
            is_open,
            "{rule}"
        );
        assert_eq!(
            is_allowed(rule, &["member", "reader"], "p2", "u2"),
            is_open,
            "{rule}"
        );
    }
    for (rule, reader, member) in [
        (Rule::ServersIndex, true, true),
        (Rule::ServersCreate, false, true),
        (Rule::ServersMigrate, false, false),
        (Rule::KeypairsShow, true, true),
        (Rule::HostAggregatesIndex, false, false),
        (Rule::ImagesIndex, true, true),
        (Rule::ImagesCreate, false, true),
        (Rule::ImagesPublicize, false, false),
    ] {
        assert_eq!(is_allowed(rule, &["reader"], "p1", "u1"), reader, "{rule}");
        assert_eq!(
            is_allowed(rule, &["member", "reader"], "p1", "u1"),
            member,
            "{rule}"
        );
    }
    assert!(!is_allowed(
        Rule::KeypairsShow,
        &["member", "reader"],
        "p1",
        "u2"
    ));
}

#[test]
fn system_and_domain_scope_are_refused_whatever_the_rule_says() {
    let everybody: String = Rule::ALL
        .iter()
        .map(|rule| format!("\"{rule}\": \"@\"\n"))
        .collect();
    let (policy, warnings) = load(&everybody).unwrap();
    assert!(warnings.is_empty());
    let system = IdentityParts {
        system_scope: Some("all".to_owned()),
        ..caller(&["admin"])
    };
    let domain = IdentityParts {
        domain_id: Some("d".to_owned()),
        ..caller(&["admin"])
    };
    for &rule in Rule::ALL {
        assert_eq!(
            policy.authorize_own(rule, &Identity::new(caller(&[]))),
            Ok(())
        );
        for (parts, scope) in [(&system, Scope::System), (&domain, Scope::Domain)] {
            let refused = policy
                .authorize_own(rule, &Identity::new(parts.clone()))
                .unwrap_err();
            assert_eq!(
                refused,
                Forbidden {
                    rule,
                    reason: ForbiddenReason::Scope(scope)
                }
            );
        }
    }
    let refused = policy.authorize_own(Rule::TotalUsages, &Identity::new(system.clone()));
    let text = "Policy does not allow placement:usages to be performed.";
    assert_eq!(refused.unwrap_err().to_string(), text);

    let without_scope_check = PolicyConfig {
        enforce_scope: false,
        ..PolicyConfig::default()
    };
    let (policy, _) = Policy::load(&without_scope_check).unwrap();
    assert!(
        policy
            .authorize_own(Rule::TraitsList, &Identity::new(system))
            .is_ok()
    );
}

#[test]
fn checks_compare_credentials_with_texts_and_targets() {
    let user = || caller(&["reader", "Member"]);
    for allowing in [
        "@",
        "",
        "role:MEMBER",
        "role:reader and not role:admin",
        "user_id:u1",
        "user_id:%(user_id)s",
        "project_id:%(project_id)s",
        "'p1':%(project_id)s",
        "roles:Member",
        "domain_id:None",
        "None:None",
        "True:True",
        "7:7",
        "is_admin_project:True",
        "! or @ and @",
        "not not role:reader",
        "user_id:u%% or user_id:%(user_id)s",
    ] {
        assert!(allows(allowing, user()), "{allowing}");
    }
    // Words are separated by spaces only, as in oslo.policy.
    let without_space = "\"(role:x or (role:reader))AND role:member\"";
    assert!(error_for(without_space).contains("expected"));
    for denying in [
        "!",
        "role:admin",
        "not role:reader",
        "user_id:U1",
        "roles:member",
        "role:%(nothing)s",
        "user_id:%(nothing)s",
        "nothing:None",
        "is_admin:True",
        "False:True",
        "system:all",
        "role:reader and ( role:admin or ! )",
        "domain_id:",
    ] {
        assert!(!allows(denying, user()), "{denying}");
    }
    let admin = IdentityParts {
        is_admin: Some(true),
        ..user()
    };
    assert!(allows("is_admin:True", admin));
}

#[test]
fn a_file_may_be_yaml_or_json_and_have_rules_in_list_form() {
    let reader = Identity::new(caller(&["reader"]));
    for text in [
        "placement:traits:list: role:reader",
        "{\n\t\"placement:traits:list\": \"role:reader\"\n}",
        "placement:traits:list: [[\"role:reader\", \"project_id:%(project_id)s\"], \"!\"]",
        "placement:traits:list: []",
        "admin_or_service_api: rule:mine\nmine: role:reader or rule:admin_api",
    ] {
        let (policy, warnings) = load(text).unwrap();
        assert!(
            policy.authorize_own(Rule::TraitsList, &reader).is_ok(),
            "{text}"
        );
        assert!(warnings.is_empty(), "{warnings:?}");
    }
    for text in ["", "# nothing\n", "{}"] {
        let (policy, _) = load(text).unwrap();
        assert!(policy.authorize_own(Rule::TraitsList, &reader).is_err());
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.yaml");
    let config = PolicyConfig {
        file: Some(file.clone()),
        ..PolicyConfig::default()
    };
    let missing = Policy::load(&config).unwrap_err().to_string();
    assert!(missing.contains("cannot read the policy file") && missing.contains("policy.yaml"));
    std::fs::write(&file, "placement:traits:list: '@'").unwrap();
    let (policy, _) = Policy::load(&config).unwrap();
    assert!(policy.authorize_own(Rule::TraitsList, &reader).is_ok());
}

#[test]
fn errors_name_the_file_the_rule_and_the_position() {
    for (check, message) in [
        (
            "role:admin and",
            "a check is missing at the end (character 15 of \"role:admin and\")",
        ),
        ("admin", "\"admin\" is no check"),
        ("role:a or (role:b", "this ( is not closed (character 11"),
        ("role:a or role:b)", "this ) closes nothing (character 17"),
        (
            "role:a role:b",
            "expected \"and\" or \"or\" before this (character 8",
        ),
        (
            "role:ä and (and role:b)",
            "expected a check before this (character 13",
        ),
        (
            "project_id:%(project_id)d",
            "only %(project_id)s is understood (character 12",
        ),
        (
            "user_id:100%",
            "expected %(name)s, or %% for a percent sign (character 12",
        ),
        (
            "http://policy.example.org/",
            "http: asks another server, which is not supported",
        ),
        (
            "rule:admin_apis",
            "refers to rule:admin_apis, which does not exist (did you mean admin_api?)",
        ),
        ("\"not rule:\"", "a rule's name is missing (character 10"),
        (
            "01:1",
            "\"01\" is neither a credential's name nor a literal",
        ),
        (
            "\"'role:admin'\"",
            "a check cannot be in quotes from end to end",
        ),
        (
            "[[role:admin, admin]]",
            "in the list's \"admin\": \"admin\" is no check",
        ),
        (
            "",
            "has no value: write \"@\" for everybody, \"!\" for nobody",
        ),
        ("!", "put the rule in quotes: in YAML a bare ! is a tag"),
        ("true", "must be a text or a list, not true or false"),
        (
            "[3]",
            "a list must hold texts and lists of texts, not a number",
        ),
    ] {
        let text = error_for(check);
        let start = "p.yaml, line 1, rule \"placement:traits:list\": ";
        assert!(
            text.starts_with(start) && text.contains(message),
            "{check}: {text}"
        );
    }
}

#[test]
fn files_without_rules_are_refused_and_all_wrong_rules_are_listed() {
    assert!(load("a: @b").unwrap_err().starts_with("p.yaml: "));
    assert!(
        load("just words")
            .unwrap_err()
            .contains("expected lines of the form")
    );
    assert!(
        load("1: role:admin")
            .unwrap_err()
            .contains("must be a text, not a number")
    );
    let twice = load("admin_api: '@'\nadmin_api: '!'").unwrap_err();
    assert!(twice.contains("duplicate"), "{twice}");
    let errors = load("service_api: '('\nadmin_api: x\n").unwrap_err();
    assert_eq!(errors.lines().count(), 2, "{errors}");
    assert!(
        errors.starts_with("p.yaml, line 1, rule \"service_api\""),
        "{errors}"
    );
}

#[test]
fn cycles_and_too_costly_rules_are_refused() {
    let cycle =
        load("a: not rule:b\nb: role:x or rule:c\nc: rule:a\nadmin_api: rule:a").unwrap_err();
    assert_eq!(cycle.lines().count(), 1, "{cycle}");
    assert!(
        cycle.contains("refers to itself: a -> b -> c -> a"),
        "{cycle}"
    );
    let self_reference = load("admin_api: rule:admin_api").unwrap_err();
    assert!(
        self_reference.contains("refers to itself: admin_api -> admin_api"),
        "{self_reference}"
    );

    let chain = |links: usize| -> String {
        let link = |n: usize| format!("r{n}: rule:r{}\n", n + 1);
        (0..links).map(link).collect::<String>() + &format!("r{links}: '@'\n")
    };
    assert!(load(&chain(40)).is_ok());
    assert!(
        load(&chain(5_000))
            .unwrap_err()
            .contains("refer to each other in a chain")
    );
    let doubling: String = (0..30)
        .map(|n| format!("d{n}: rule:d{m} or rule:d{m}\n", m = n + 1))
        .collect();
    let costly = load(&(doubling + "d30: '!'")).unwrap_err();
    assert!(costly.contains("takes more than 100000 checks"), "{costly}");
    let nested = format!("admin_api: \"{}@{}\"", "(".repeat(5_000), ")".repeat(5_000));
    assert!(load(&nested).unwrap_err().contains("too many brackets"));
    let nots = format!("admin_api: \"{}@\"", "not ".repeat(100_000));
    assert!(load(&nots).unwrap_err().contains("too many brackets"));
}

#[test]
fn unused_rules_and_impossible_checks_are_warned_about() {
    let (_, warnings) = load(
        "# mine\nplacement:trait:list: role:a\n\
         placement:traits:list: user:%(user_id)s or project_id:%(tenant_id)s\n\
         default: role:admin\nrule:admin_api: role:admin\n",
    )
    .unwrap();
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "line 2, rule \"placement:trait:list\": nothing asks for this rule \
         (did you mean placement:traits:list?)",
            "line 3, rule \"placement:traits:list\": nobody has a user, so the check fails \
         (did you mean user_id?)",
            "line 3, rule \"placement:traits:list\": no operation has a %(tenant_id)s, \
         so the check fails",
        ]
    );
}

#[test]
fn the_sample_has_every_rule_commented_out() {
    let sample = sample_policy();
    assert!(
        sample
            .lines()
            .all(|line| line.is_empty() || line.starts_with('#'))
    );
    let rules: String = sample
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|line| line.starts_with('"')))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(rules.lines().count(), Rule::ALL.len() + BASE_RULES_COUNT);
    let (policy, warnings) = load(&rules).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let reader = Identity::new(caller(&["reader"]));
    assert!(
        policy
            .authorize(Rule::TotalUsages, &reader, &Target::project(Some("p1")))
            .is_ok()
    );
    assert!(sample.contains("# PUT  /resource_providers/{uuid}/inventories/{resource_class}\n"));
    assert!(sample.contains("# With enforce_new_defaults off also: role:admin\n"));
    for (index, &rule) in Rule::ALL.iter().enumerate() {
        assert_eq!(rule as usize, index);
        assert_eq!(Rule::from_name(rule.name()), Some(rule));
    }
}
