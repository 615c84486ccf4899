//! Compiles the defaults and a file into trees that are fast to evaluate.

use std::collections::{HashMap, HashSet};

use crate::identity::Identity;
use crate::policy::check::{Check, RuleSource};
use crate::policy::credential::{self, Credential};
use crate::policy::error::{PolicyError, PolicyWarning, RuleProblem};
use crate::policy::file::{Override, Overrides};
use crate::policy::parse;
use crate::policy::rules::{BASE_RULES, DEPRECATED_NAME, Rule, RuleDefault};
use crate::policy::target::Target;
use crate::policy::template::Template;

/// The maximum depth of references. The rules of real policies have three.
const DEPTH_MAX: usize = 64;
/// The maximum number of checks for one evaluation in the worst case.
const CHECKS_MAX: u64 = 100_000;

/// The similarity (Jaro-Winkler, 0 to 1) above which a name is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.8;

/// All compiled rules: first those of [`Rule::ALL`], in its order.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The compiled check of each rule, by the index of the rule.
    nodes: Vec<Node>,
}

/// A compiled check, with names resolved to indexes and enums.
#[derive(Debug)]
enum Node {
    True,
    False,
    Not(Box<Node>),
    All(Box<[Node]>),
    Any(Box<[Node]>),
    /// A reference to the rule with this index.
    Rule(usize),
    /// A role without placeholders, in lower case.
    Role(Box<str>),
    /// A role with placeholders.
    RoleTemplate(Template),
    Credential(Credential, Template),
    Literal(Box<str>, Template),
}

impl Rules {
    /// Evaluates a rule for a caller and a target.
    pub(crate) fn check(&self, rule: Rule, identity: &Identity, target: &Target<'_>) -> bool {
        self.evaluate(&self.nodes[rule as usize], identity, target)
    }

    /// Whether a check allows the request of a caller for a target.
    fn evaluate(&self, node: &Node, identity: &Identity, target: &Target<'_>) -> bool {
        match node {
            Node::True => true,
            Node::False => false,
            Node::Not(node) => !self.evaluate(node, identity, target),
            Node::All(nodes) => nodes
                .iter()
                .all(|node| self.evaluate(node, identity, target)),
            Node::Any(nodes) => nodes
                .iter()
                .any(|node| self.evaluate(node, identity, target)),
            Node::Rule(index) => self.evaluate(&self.nodes[*index], identity, target),
            Node::Role(role) => identity.has_role_lower(role),
            Node::RoleTemplate(template) => template
                .fill(target)
                .is_some_and(|role| identity.has_role_lower(&role.to_lowercase())),
            Node::Credential(credential, template) => template
                .fill(target)
                .is_some_and(|text| credential.equals(identity, &text)),
            Node::Literal(literal, template) => {
                template.fill(target).is_some_and(|text| *text == **literal)
            }
        }
    }
}

/// Compiles the defaults and the rules of a file that override or extend them.
pub(crate) fn compile(
    file: &Overrides,
    enforce_new_defaults: bool,
) -> Result<(Rules, Vec<PolicyWarning>), PolicyError> {
    let mut problems = Vec::new();
    let overrides = parse_overrides(file, &mut problems);
    let defaults = || {
        Rule::ALL
            .iter()
            .map(|rule| rule.default())
            .chain(BASE_RULES)
    };
    let mut named_rules: Vec<NamedRule<'_>> = Vec::new();
    for default in defaults() {
        let override_rule = overrides.iter().find(|rule| rule.name == default.name);
        let check = match override_rule {
            Some(override_rule) => override_rule.check.clone(),
            None => default_check(default, &overrides, enforce_new_defaults, &mut problems),
        };
        named_rules.push(NamedRule {
            name: default.name,
            line: override_rule.and_then(|override_rule| override_rule.line),
            check,
        });
    }
    let additional_rules = overrides
        .iter()
        .filter(|override_rule| !defaults().any(|default| default.name == override_rule.name));
    named_rules.extend(additional_rules.map(|override_rule| NamedRule {
        check: override_rule.check.clone(),
        ..*override_rule
    }));

    let indexes: HashMap<&str, usize> = named_rules
        .iter()
        .enumerate()
        .map(|(index, rule)| (rule.name, index))
        .collect();
    find_unknown_references(&named_rules, &indexes, &mut problems);
    // The search needs every reference to be known.
    if problems.is_empty() {
        problems = ReferenceSearch::new(&named_rules, &indexes).problems();
    }
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        return Err(PolicyError::Rules {
            path: file.path.clone(),
            problems,
        });
    }
    let warnings = warnings(&named_rules, &overrides);
    Ok((
        Rules {
            nodes: named_rules
                .iter()
                .map(|rule| compile_check(&rule.check, &indexes))
                .collect(),
        },
        warnings,
    ))
}

/// A parsed rule of the defaults or of a file.
struct NamedRule<'o> {
    name: &'o str,
    /// The line in the file; `None` for a default, or if it was not found.
    line: Option<usize>,
    check: Check,
}

impl NamedRule<'_> {
    fn problem(&self, message: String) -> RuleProblem {
        RuleProblem {
            rule: self.name.to_owned(),
            line: self.line,
            message,
        }
    }
}

/// Parses the rules of a file. A rule that cannot be parsed is added to `problems`.
fn parse_overrides<'o>(file: &'o Overrides, problems: &mut Vec<RuleProblem>) -> Vec<NamedRule<'o>> {
    let mut overrides = Vec::with_capacity(file.rules.len());
    for Override { name, line, source } in &file.rules {
        match parse::parse(source) {
            Ok(check) => overrides.push(NamedRule {
                name,
                line: *line,
                check,
            }),
            Err(error) => problems.push(RuleProblem {
                rule: name.clone(),
                line: *line,
                message: match source {
                    RuleSource::Text(_) => {
                        format!(
                            "{} (character {} of \"{source}\")",
                            error.message, error.column
                        )
                    }
                    RuleSource::Lists(_) => {
                        format!("{} (character {})", error.message, error.column)
                    }
                },
            }),
        }
    }
    overrides
}

/// The check of a rule that the file does not have, with oslo.policy's precedence: an override of the
/// deprecated rule is used if there is one. Otherwise the rule allows what its default allows and, while
/// `enforce_new_defaults` is off, also what its deprecated default allows.
fn default_check(
    default: &RuleDefault,
    overrides: &[NamedRule<'_>],
    enforce_new_defaults: bool,
    problems: &mut Vec<RuleProblem>,
) -> Check {
    let mut parse = |text: &str| {
        parse::parse_text(text).unwrap_or_else(|error| {
            // A test checks that every default can be parsed.
            let message = format!(
                "wrong default: {} (character {})",
                error.message, error.column
            );
            problems.push(RuleProblem {
                rule: default.name.to_owned(),
                line: None,
                message,
            });
            Check::False
        })
    };
    let check = parse(default.check);
    let Some(deprecated_text) = default.deprecated_check else {
        return check;
    };
    let deprecated = parse(deprecated_text);
    if let Some(override_rule) = overrides.iter().find(|rule| rule.name == DEPRECATED_NAME) {
        // As in oslo.policy, an override that says what the deprecated default says, or that only refers to the rule
        // itself, does not count.
        let refers_to_default =
            matches!(&override_rule.check, Check::Rule(name) if **name == *default.name);
        if override_rule.check != deprecated && !refers_to_default {
            return override_rule.check.clone();
        }
    }
    if !enforce_new_defaults && deprecated_text != default.check {
        return Check::Any(vec![check, deprecated]);
    }
    check
}

/// Adds a problem for each reference to a rule that does not exist.
fn find_unknown_references(
    named_rules: &[NamedRule<'_>],
    indexes: &HashMap<&str, usize>,
    problems: &mut Vec<RuleProblem>,
) {
    for rule in named_rules {
        for reference in rule.check.references() {
            if !indexes.contains_key(reference) {
                let nearest = nearest(reference, named_rules.iter().map(|rule| rule.name));
                problems.push(rule.problem(format!(
                    "refers to rule:{reference}, which does not exist{}",
                    did_you_mean(nearest)
                )));
            }
        }
    }
}

/// A depth-first search of the references for cycles and for rules that are too costly. It visits each
/// rule once.
struct ReferenceSearch<'w> {
    named_rules: &'w [NamedRule<'w>],
    indexes: &'w HashMap<&'w str, usize>,
    /// The depth and the number of checks of rules whose visit is finished.
    finished: Vec<Option<(usize, u64)>>,
    /// The rules whose visit is under way, each after the rule that refers to it.
    path: Vec<usize>,
    problems: Vec<RuleProblem>,
}

impl<'w> ReferenceSearch<'w> {
    fn new(named_rules: &'w [NamedRule<'w>], indexes: &'w HashMap<&'w str, usize>) -> Self {
        let finished = vec![None; named_rules.len()];
        Self {
            named_rules,
            indexes,
            finished,
            path: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The problems of all rules.
    fn problems(mut self) -> Vec<RuleProblem> {
        for index in 0..self.named_rules.len() {
            self.visit(index);
            self.path.clear();
        }
        self.problems
    }

    /// The depth and the number of checks of a rule. A rule with a problem counts as a single check, so
    /// that rules that refer to it do not report the problem again.
    fn visit(&mut self, index: usize) -> (usize, u64) {
        if let Some(finished) = self.finished[index] {
            return finished;
        }
        let named_rules = self.named_rules;
        if let Some(start) = self.path.iter().position(|&rule| rule == index) {
            let names: Vec<&str> = self.path[start..]
                .iter()
                .chain([&index])
                .map(|&rule| named_rules[rule].name)
                .collect();
            self.problems.push(
                named_rules[index].problem(format!("refers to itself: {}", names.join(" -> "))),
            );
            return (0, 1);
        }
        // A limit of the recursion, before the depth of the rule is known.
        if self.path.len() > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} rules refer to each other in a chain");
            self.problems.push(named_rules[index].problem(message));
            self.finished[index] = Some((0, 1));
            return (0, 1);
        }
        self.path.push(index);
        let (mut depth, mut checks) = (0, 0_u64);
        named_rules[index].check.for_each_leaf(&mut |leaf| {
            let (leaf_depth, leaf_checks) = match leaf {
                Check::Rule(name) => self.visit(self.indexes[&**name]),
                _ => (0, 1),
            };
            depth = depth.max(leaf_depth + 1);
            checks = checks.saturating_add(leaf_checks);
        });
        self.path.pop();
        if checks > CHECKS_MAX {
            let message =
                format!("takes more than {CHECKS_MAX} checks with the rules it refers to");
            self.problems.push(named_rules[index].problem(message));
            checks = 1;
        }
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} rules refer to each other in a chain");
            self.problems.push(named_rules[index].problem(message));
            depth = 0;
        }
        self.finished[index] = Some((depth, checks));
        (depth, checks)
    }
}

fn compile_check(check: &Check, indexes: &HashMap<&str, usize>) -> Node {
    let nodes = |checks: &[Check]| {
        checks
            .iter()
            .map(|check| compile_check(check, indexes))
            .collect()
    };
    match check {
        Check::True => Node::True,
        Check::False => Node::False,
        Check::Not(check) => Node::Not(Box::new(compile_check(check, indexes))),
        Check::All(checks) => Node::All(nodes(checks)),
        Check::Any(checks) => Node::Any(nodes(checks)),
        Check::Rule(name) => Node::Rule(indexes[&**name]),
        Check::Role(template) => match template.fixed() {
            Some(role) => Node::Role(role.to_lowercase().into()),
            None => Node::RoleTemplate(template.clone()),
        },
        Check::Credential(name, template) => match Credential::from_name(name) {
            Some(credential) => Node::Credential(credential, template.clone()),
            None => Node::False,
        },
        Check::Literal(literal, template) => Node::Literal(literal.clone(), template.clone()),
    }
}

/// Warnings about a file: rules that are never evaluated, credentials that no caller has, and placeholders that no
/// operation has.
fn warnings(named_rules: &[NamedRule<'_>], overrides: &[NamedRule<'_>]) -> Vec<PolicyWarning> {
    let evaluated_names: Vec<&str> = Rule::ALL
        .iter()
        .map(|rule| rule.name())
        .chain(BASE_RULES.iter().map(|base| base.name))
        .collect();
    let referred: HashSet<&str> = named_rules
        .iter()
        .flat_map(|rule| rule.check.references())
        .collect();
    let mut warnings = Vec::new();
    for override_rule in overrides {
        let mut warn = |message: String| {
            warnings.push(PolicyWarning {
                rule: override_rule.name.to_owned(),
                line: override_rule.line,
                message,
            });
        };
        let is_used =
            evaluated_names.contains(&override_rule.name) || referred.contains(override_rule.name);
        // Policy files for several services contain a rule `default`. It is ignored without a warning,
        // because every rule here has a default of its own.
        if !is_used && override_rule.name != DEPRECATED_NAME && override_rule.name != "default" {
            let nearest = nearest(override_rule.name, evaluated_names.iter().copied());
            warn(format!(
                "nothing asks for this rule{}",
                did_you_mean(nearest)
            ));
        }
        override_rule.check.for_each_leaf(&mut |leaf| {
            if let Check::Credential(name, _) = leaf
                && Credential::from_name(name).is_none()
            {
                let nearest = nearest(name, credential::NAMES.iter().copied());
                warn(format!(
                    "nobody has a {name}, so the check fails{}",
                    did_you_mean(nearest)
                ));
            }
            if let Check::Role(template)
            | Check::Credential(_, template)
            | Check::Literal(_, template) = leaf
            {
                for key in template
                    .keys()
                    .filter(|key| !matches!(*key, "project_id" | "user_id"))
                {
                    warn(format!("no operation has a %({key})s, so the check fails"));
                }
            }
        });
    }
    warnings
}

/// The most similar name, if any is similar enough to suggest.
fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > SIMILARITY_MIN)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, candidate)| candidate)
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}
