//! Static checks of expressions: which names they may use, and what they may cost.
//!
//! The language has no unbounded loops, but lists can be iterated within lists, and texts grow by
//! `+`. Upper bounds of both are computed here before anything is evaluated.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue};

use super::fields;

/// The upper bound of the cost of an expression, in steps of about 50 ns.
const COST_MAX: u64 = 65_536;
/// The upper bound of characters and elements of an intermediate value.
const SIZE_MAX: u64 = 65_536;

/// The functions that expressions may call, besides operators.
const FUNCTIONS: [&str; 13] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "type",
    "dyn",
    "@not_strictly_false",
    "@in",
];

/// The types that expressions may compare types with.
const TYPES: [&str; 8] = [
    "bool",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "uint",
];

/// An error, and the syntax node where it is.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) node: u64,
    pub(super) message: String,
}

/// The result of the static analysis.
#[derive(Debug)]
pub(super) struct Findings {
    /// Whether its value may differ from host to host.
    pub(super) reads_host: bool,
}

/// Upper bounds for a node: its cost, the size of its value, and its number of elements.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    cost: u64,
    size: u64,
    count: u64,
}

impl Estimate {
    const ONE: Self = Self {
        cost: 1,
        size: 1,
        count: 1,
    };

    fn and(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            size: self.size.saturating_add(other.size),
            count: self.count.saturating_add(other.count),
        }
    }
}

/// Analyses an expression without evaluating it.
pub(super) fn check(expression: &IdedExpr) -> Result<Findings, Wrong> {
    let mut walk = Walk {
        variables: Vec::new(),
        reads_host: false,
    };
    walk.estimate(expression)?;
    Ok(Findings {
        reads_host: walk.reads_host,
    })
}

/// The state of the analysis while it walks the syntax tree.
struct Walk<'e> {
    /// The loop variables in scope, each with the size of its elements.
    variables: Vec<(&'e str, u64)>,
    reads_host: bool,
}

impl<'e> Walk<'e> {
    fn estimate(&mut self, node: &'e IdedExpr) -> Result<Estimate, Wrong> {
        let wrong = |message: String| {
            Err(Wrong {
                node: node.id,
                message,
            })
        };
        let found = match &node.expr {
            Expr::Literal(literal) => Estimate {
                size: match literal {
                    LiteralValue::String(text) => text.inner().len() as u64,
                    LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
                    _ => 1,
                },
                ..Estimate::ONE
            },
            Expr::Ident(name) => self.identifier(name, node.id)?,
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(root) if root == "host" || root == "request" => {
                    self.field(root, &select.field, node.id, select.test)?
                }
                _ => self.estimate(&select.operand)?.and(Estimate {
                    size: 0,
                    count: 0,
                    ..Estimate::ONE
                }),
            },
            Expr::Call(call) => self.call(call, node.id)?,
            Expr::List(list) => {
                let mut all = Estimate {
                    count: list.elements.len() as u64,
                    size: 0,
                    cost: 1,
                };
                for element in &list.elements {
                    let one = self.estimate(element)?;
                    all.cost = all.cost.saturating_add(one.cost);
                    all.size = all.size.saturating_add(one.size.max(1));
                }
                all
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension)?,
            Expr::Map(_) => return wrong("maps cannot be written here".to_owned()),
            Expr::Struct(_) => return wrong("messages cannot be written here".to_owned()),
            Expr::Unspecified => return wrong("cannot be read".to_owned()),
        };
        if found.cost > COST_MAX {
            return wrong(format!("may take more than {COST_MAX} steps for a host"));
        }
        if found.size > SIZE_MAX {
            return wrong(format!("may grow beyond {SIZE_MAX} characters or elements"));
        }
        Ok(found)
    }

    fn identifier(&self, name: &str, node: u64) -> Result<Estimate, Wrong> {
        let known = self.variables.iter().rfind(|(known, _)| *known == name);
        if let Some((_, size)) = known {
            return Ok(Estimate {
                cost: 1,
                size: *size,
                count: *size,
            });
        }
        if TYPES.contains(&name) {
            return Ok(Estimate::ONE);
        }
        let message = if name == "host" || name == "request" {
            format!("{name:?} must be followed by the name of a field, as in {name}.name")
        } else {
            format!("there is no variable {name:?}; there are host and request")
        };
        Err(Wrong { node, message })
    }

    fn field(
        &mut self,
        root: &str,
        field: &str,
        node: u64,
        is_test: bool,
    ) -> Result<Estimate, Wrong> {
        let fields = if root == "host" {
            self.reads_host = true;
            fields::HOST
        } else {
            fields::REQUEST
        };
        if !fields.contains(&field) {
            let message = format!(
                "{root} has no field {field:?}; it has {}",
                fields.join(", ")
            );
            return Err(Wrong { node, message });
        }
        if is_test {
            let message = format!("every {root} has the field {field:?}");
            return Err(Wrong { node, message });
        }
        Ok(Estimate {
            cost: 2,
            size: fields::SIZE_MAX,
            count: fields::COUNT_MAX,
        })
    }

    fn call(&mut self, call: &'e CallExpr, node: u64) -> Result<Estimate, Wrong> {
        let name = call.func_name.as_str();
        let is_operator = name.contains('_') && !name.starts_with(char::is_alphabetic);
        if !is_operator && !FUNCTIONS.contains(&name) {
            let named = FUNCTIONS.iter().filter(|name| !name.starts_with('@'));
            let known: Vec<&str> = named.copied().collect();
            let message = format!(
                "there is no function {name:?}; there are {}",
                known.join(", ")
            );
            return Err(Wrong { node, message });
        }
        let mut all = Estimate {
            cost: 1,
            size: 0,
            count: 0,
        };
        let mut largest = Estimate::ONE;
        for argument in call.target.as_deref().into_iter().chain(&call.args) {
            let one = self.estimate(argument)?;
            largest.size = largest.size.max(one.size);
            largest.count = largest.count.max(one.count);
            all = all.and(one);
        }
        // A step covers a thousand characters of text.
        let cost = all.cost.saturating_add(all.size / 1024);
        let (size, count) = match name {
            "_+_" => (all.size, all.count),
            "_?_:_" | "_[_]" | "string" | "dyn" => (largest.size, largest.count),
            // Every other function yields a number, a boolean or a type.
            _ => (1, 1),
        };
        Ok(Estimate { cost, size, count })
    }

    fn comprehension(&mut self, node: &'e ComprehensionExpr) -> Result<Estimate, Wrong> {
        let range = self.estimate(&node.iter_range)?;
        let start = self.estimate(&node.accu_init)?;
        let outer = self.variables.len();
        self.variables.push((&node.iter_var, range.size));
        if let Some(second) = &node.iter_var2 {
            self.variables.push((second, range.size));
        }
        // The accumulator starts at size 0; what one iteration adds is multiplied below.
        self.variables.push((&node.accu_var, 0));
        let condition = self.estimate(&node.loop_cond)?;
        let step = self.estimate(&node.loop_step)?;
        self.variables.truncate(outer);
        let turn = condition.cost.saturating_add(step.cost);
        let gathered = range
            .count
            .saturating_mul(step.size)
            .saturating_add(start.size);
        self.variables.push((&node.accu_var, gathered));
        let result = self.estimate(&node.result)?;
        self.variables.truncate(outer);
        let turns = range.count.saturating_mul(turn);
        Ok(Estimate {
            cost: range
                .cost
                .saturating_add(start.cost)
                .saturating_add(turns)
                .saturating_add(result.cost)
                .saturating_add(gathered / 64),
            size: result.size,
            count: range.count,
        })
    }
}
