//! Compiles the defaults and a file into trees that are fast to evaluate.

use std::collections::{HashMap, HashSet};

use crate::identity::Identity;
use crate::policy::check::{Check, Source};
use crate::policy::credential::{self, Credential};
use crate::policy::error::{PolicyError, PolicyWarning, RuleProblem};
use crate::policy::file::{Override, Overrides};
use crate::policy::parse;
use crate::policy::rules::{BASE, DEPRECATED_NAME, Rule, RuleDefault};
use crate::policy::target::Target;
use crate::policy::template::Template;

/// The maximum depth of references. Real rules have three.
const DEPTH_MAX: usize = 64;
/// The maximum number of checks for one evaluation in the worst case.
const CHECKS_MAX: u64 = 100_000;

/// All rules, those of [`Rule::ALL`] first and in its order.
#[derive(Debug)]
pub(crate) struct Rules {
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
    Rule(usize),
    /// A role without placeholders, in lower case.
    Role(Box<str>),
    /// A role with placeholders.
    FilledRole(Template),
    Credential(Credential, Template),
    Literal(Box<str>, Template),
}

impl Rules {
    /// Evaluates a rule for a caller and a target.
    pub(crate) fn check(&self, rule: Rule, identity: &Identity, target: &Target<'_>) -> bool {
        self.holds(&self.nodes[rule as usize], identity, target)
    }

    fn holds(&self, node: &Node, identity: &Identity, target: &Target<'_>) -> bool {
        match node {
            Node::True => true,
            Node::False => false,
            Node::Not(node) => !self.holds(node, identity, target),
            Node::All(nodes) => nodes.iter().all(|node| self.holds(node, identity, target)),
            Node::Any(nodes) => nodes.iter().any(|node| self.holds(node, identity, target)),
            Node::Rule(index) => self.holds(&self.nodes[*index], identity, target),
            Node::Role(role) => identity.has_role_lower(role),
            Node::FilledRole(template) => template
                .fill(target)
                .is_some_and(|role| identity.has_role_lower(&role.to_lowercase())),
            Node::Credential(credential, template) => template
                .fill(target)
                .is_some_and(|text| credential.is(identity, &text)),
            Node::Literal(literal, template) => {
                template.fill(target).is_some_and(|text| *text == **literal)
            }
        }
    }
}

/// Compiles the defaults, overridden by a file.
pub(crate) fn compile(
    overrides: &Overrides,
    enforce_new_defaults: bool,
) -> Result<(Rules, Vec<PolicyWarning>), PolicyError> {
    let mut problems = Vec::new();
    let written = parse_overrides(overrides, &mut problems);
    let defaults = || Rule::ALL.iter().map(|rule| rule.default()).chain(BASE);
    let mut named: Vec<Named<'_>> = Vec::new();
    for default in defaults() {
        let own = written.iter().find(|written| written.name == default.name);
        let check = match own {
            Some(own) => own.check.clone(),
            None => default_check(default, &written, enforce_new_defaults, &mut problems),
        };
        named.push(Named {
            name: default.name,
            line: own.and_then(|own| own.line),
            check,
        });
    }
    let extra = written
        .iter()
        .filter(|own| !defaults().any(|default| default.name == own.name));
    named.extend(extra.map(|own| Named {
        check: own.check.clone(),
        ..*own
    }));

    let index: HashMap<&str, usize> = named
        .iter()
        .enumerate()
        .map(|(at, named)| (named.name, at))
        .collect();
    find_unknown_references(&named, &index, &mut problems);
    if problems.is_empty() {
        problems = Walk::new(&named, &index).problems();
    }
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        return Err(PolicyError::Rules {
            path: overrides.path.clone(),
            problems,
        });
    }
    let warnings = warnings(&named, &written);
    Ok((
        Rules {
            nodes: named
                .iter()
                .map(|named| node(&named.check, &index))
                .collect(),
        },
        warnings,
    ))
}

/// A rule with its name.
struct Named<'o> {
    name: &'o str,
    line: Option<usize>,
    check: Check,
}

impl Named<'_> {
    fn problem(&self, message: String) -> RuleProblem {
        RuleProblem {
            rule: self.name.to_owned(),
            line: self.line,
            message,
        }
    }
}

fn parse_overrides<'o>(
    overrides: &'o Overrides,
    problems: &mut Vec<RuleProblem>,
) -> Vec<Named<'o>> {
    let mut written = Vec::with_capacity(overrides.rules.len());
    for Override { name, line, source } in &overrides.rules {
        match parse::parse(source) {
            Ok(check) => written.push(Named {
                name,
                line: *line,
                check,
            }),
            Err(error) => problems.push(RuleProblem {
                rule: name.clone(),
                line: *line,
                message: match source {
                    Source::Text(_) => {
                        format!(
                            "{} (character {} of \"{source}\")",
                            error.message, error.column
                        )
                    }
                    Source::Lists(_) => format!("{} (character {})", error.message, error.column),
                },
            }),
        }
    }
    written
}

/// The check of a rule that the file does not mention, with oslo.policy's precedence: an override
/// of the deprecated rule wins; otherwise the deprecated default is allowed in addition to the new
/// one, unless disabled.
fn default_check(
    default: &RuleDefault,
    written: &[Named<'_>],
    enforce_new_defaults: bool,
    problems: &mut Vec<RuleProblem>,
) -> Check {
    let mut parse = |text: &str| {
        parse::parse_text(text).unwrap_or_else(|error| {
            // Unreachable: a test parses every default.
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
    if let Some(own) = written
        .iter()
        .find(|written| written.name == DEPRECATED_NAME)
    {
        let refers_here = matches!(&own.check, Check::Rule(name) if **name == *default.name);
        if own.check != deprecated && !refers_here {
            return own.check.clone();
        }
    }
    if !enforce_new_defaults && deprecated_text != default.check {
        return Check::Any(vec![check, deprecated]);
    }
    check
}

fn find_unknown_references(
    named: &[Named<'_>],
    index: &HashMap<&str, usize>,
    problems: &mut Vec<RuleProblem>,
) {
    for rule in named {
        for reference in rule.check.references() {
            if !index.contains_key(reference) {
                let nearest = nearest(reference, named.iter().map(|named| named.name));
                problems.push(rule.problem(format!(
                    "refers to rule:{reference}, which does not exist{}",
                    did_you_mean(nearest)
                )));
            }
        }
    }
}

/// Finds cycles and rules that are too costly, by depth-first search that visits each rule once.
struct Walk<'w> {
    named: &'w [Named<'w>],
    index: &'w HashMap<&'w str, usize>,
    /// Memoised depth and number of checks of finished rules.
    done: Vec<Option<(usize, u64)>>,
    path: Vec<usize>,
    problems: Vec<RuleProblem>,
}

impl<'w> Walk<'w> {
    fn new(named: &'w [Named<'w>], index: &'w HashMap<&'w str, usize>) -> Self {
        let done = vec![None; named.len()];
        Self {
            named,
            index,
            done,
            path: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn problems(mut self) -> Vec<RuleProblem> {
        for at in 0..self.named.len() {
            self.visit(at);
            self.path.clear();
        }
        self.problems
    }

    /// The depth and the number of checks of a rule. After a problem the search continues as if
    /// the rule were a single check, so that each problem is reported once.
    fn visit(&mut self, at: usize) -> (usize, u64) {
        if let Some(done) = self.done[at] {
            return done;
        }
        let named = self.named;
        if let Some(start) = self.path.iter().position(|&rule| rule == at) {
            let names: Vec<&str> = self.path[start..]
                .iter()
                .chain([&at])
                .map(|&rule| named[rule].name)
                .collect();
            self.problems
                .push(named[at].problem(format!("refers to itself: {}", names.join(" -> "))));
            return (0, 1);
        }
        if self.path.len() > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} rules refer to each other in a chain");
            self.problems.push(named[at].problem(message));
            self.done[at] = Some((0, 1));
            return (0, 1);
        }
        self.path.push(at);
        let (mut depth, mut checks) = (0, 0_u64);
        named[at].check.each_leaf(&mut |leaf| {
            let below = match leaf {
                Check::Rule(name) => self.visit(self.index[&**name]),
                _ => (0, 1),
            };
            depth = depth.max(below.0 + 1);
            checks = checks.saturating_add(below.1);
        });
        self.path.pop();
        if checks > CHECKS_MAX {
            let message =
                format!("takes more than {CHECKS_MAX} checks with the rules it refers to");
            self.problems.push(named[at].problem(message));
            checks = 1;
        }
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} rules refer to each other in a chain");
            self.problems.push(named[at].problem(message));
            depth = 0;
        }
        self.done[at] = Some((depth, checks));
        (depth, checks)
    }
}

fn node(check: &Check, index: &HashMap<&str, usize>) -> Node {
    let nodes = |checks: &[Check]| checks.iter().map(|check| node(check, index)).collect();
    match check {
        Check::True => Node::True,
        Check::False => Node::False,
        Check::Not(check) => Node::Not(Box::new(node(check, index))),
        Check::All(checks) => Node::All(nodes(checks)),
        Check::Any(checks) => Node::Any(nodes(checks)),
        Check::Rule(name) => Node::Rule(index[&**name]),
        Check::Role(template) => match template.fixed() {
            Some(role) => Node::Role(role.to_lowercase().into()),
            None => Node::FilledRole(template.clone()),
        },
        Check::Credential(name, template) => match Credential::from_name(name) {
            Some(credential) => Node::Credential(credential, template.clone()),
            None => Node::False,
        },
        Check::Literal(literal, template) => Node::Literal(literal.clone(), template.clone()),
    }
}

/// Warnings about a file: rules that are never evaluated, and credentials that no caller has.
fn warnings(named: &[Named<'_>], written: &[Named<'_>]) -> Vec<PolicyWarning> {
    let known: Vec<&str> = Rule::ALL
        .iter()
        .map(|rule| rule.name())
        .chain(BASE.iter().map(|base| base.name))
        .collect();
    let referred: HashSet<&str> = named
        .iter()
        .flat_map(|named| named.check.references())
        .collect();
    let mut warnings = Vec::new();
    for own in written {
        let mut warn = |message: String| {
            warnings.push(PolicyWarning {
                rule: own.name.to_owned(),
                line: own.line,
                message,
            });
        };
        let used = known.contains(&own.name) || referred.contains(own.name);
        // Files for several services contain a `default` rule; here every rule has its own
        // default.
        if !used && own.name != DEPRECATED_NAME && own.name != "default" {
            let nearest = nearest(own.name, known.iter().copied());
            warn(format!(
                "nothing asks for this rule{}",
                did_you_mean(nearest)
            ));
        }
        own.check.each_leaf(&mut |leaf| {
            if let Check::Credential(name, _) = leaf
                && Credential::from_name(name).is_none()
            {
                let nearest = nearest(name, credential::NAMES.iter().copied());
                warn(format!(
                    "nobody has a {name}, so the check fails{}",
                    did_you_mean(nearest)
                ));
            }
            if let Check::Role(text) | Check::Credential(_, text) | Check::Literal(_, text) = leaf {
                for key in text
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
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}
