//! The static analysis of expressions: which names they use, and what they may cost.
//!
//! The language has no unbounded loops, but loops can be nested, and texts grow by `+`. Upper
//! bounds of the cost and of the sizes of values are computed here, before anything is evaluated.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue};

use super::fields;

/// The upper bound of the cost of an expression, in steps of about 50 ns.
const COST_MAX: u64 = 65_536;
/// The upper bound of the characters and elements of a value within an expression.
const SIZE_MAX: u64 = 65_536;

/// The functions that expressions may call, besides operators. The parser itself writes those with `@`: it translates
/// `in` to `@in`, and loops such as `all` to comprehensions that call `@not_strictly_false`.
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

/// The names of types that expressions may use, as in `type(x) == int`.
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
pub(super) struct CheckError {
    pub(super) node: u64,
    pub(super) message: String,
}

/// The result of the static analysis.
#[derive(Debug)]
pub(super) struct Analysis {
    /// Whether the value of the expression may differ from host to host.
    pub(super) reads_host: bool,
}

/// Upper bounds for a node of the syntax tree.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// The cost of evaluating the node, in the steps of [`COST_MAX`].
    cost: u64,
    /// The characters and elements of the node's value, including those of elements within the value.
    size: u64,
    /// How many elements a loop over the node's value visits.
    count: u64,
}

impl Estimate {
    /// The estimate for a scalar that is read in one step.
    const SCALAR: Self = Self {
        cost: 1,
        size: 1,
        count: 1,
    };

    /// The bounds for two nodes together.
    fn plus(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            size: self.size.saturating_add(other.size),
            count: self.count.saturating_add(other.count),
        }
    }
}

/// Analyses an expression without evaluating it. Fails if it uses an unknown name or may cost too
/// much.
pub(super) fn analyse(expression: &IdedExpr) -> Result<Analysis, CheckError> {
    let mut walker = Walker {
        variables: Vec::new(),
        reads_host: false,
    };
    walker.estimate(expression)?;
    Ok(Analysis {
        reads_host: walker.reads_host,
    })
}

/// The state of the analysis while it walks the syntax tree.
struct Walker<'e> {
    /// The loop variables in scope, each with an upper bound of the size of its values.
    variables: Vec<(&'e str, u64)>,
    reads_host: bool,
}

impl<'e> Walker<'e> {
    /// The upper bounds for a node. Fails if the node, or one within it, is not allowed or may cost too much.
    fn estimate(&mut self, node: &'e IdedExpr) -> Result<Estimate, CheckError> {
        let error = |message: String| {
            Err(CheckError {
                node: node.id,
                message,
            })
        };
        let result = match &node.expr {
            Expr::Literal(literal) => Estimate {
                size: match literal {
                    LiteralValue::String(text) => text.inner().len() as u64,
                    LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
                    _ => 1,
                },
                ..Estimate::SCALAR
            },
            Expr::Ident(name) => self.identifier(name, node.id)?,
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(root) if root == "host" || root == "request" => {
                    self.field(root, &select.field, node.id, select.test)?
                }
                _ => self.estimate(&select.operand)?.plus(Estimate {
                    size: 0,
                    count: 0,
                    ..Estimate::SCALAR
                }),
            },
            Expr::Call(call) => self.call(call, node.id)?,
            Expr::List(list) => {
                let mut total = Estimate {
                    count: list.elements.len() as u64,
                    size: 0,
                    cost: 1,
                };
                for element in &list.elements {
                    let element_estimate = self.estimate(element)?;
                    total.cost = total.cost.saturating_add(element_estimate.cost);
                    total.size = total.size.saturating_add(element_estimate.size.max(1));
                }
                total
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension)?,
            Expr::Map(_) => return error("maps cannot be written here".to_owned()),
            Expr::Struct(_) => return error("messages cannot be written here".to_owned()),
            Expr::Unspecified => return error("cannot be read".to_owned()),
        };
        if result.cost > COST_MAX {
            return error(format!("may take more than {COST_MAX} steps for a host"));
        }
        if result.size > SIZE_MAX {
            return error(format!("may grow beyond {SIZE_MAX} characters or elements"));
        }
        Ok(result)
    }

    fn identifier(&self, name: &str, node: u64) -> Result<Estimate, CheckError> {
        let variable = self
            .variables
            .iter()
            .rfind(|(variable, _)| *variable == name);
        if let Some((_, size)) = variable {
            return Ok(Estimate {
                cost: 1,
                size: *size,
                count: *size,
            });
        }
        if TYPES.contains(&name) {
            return Ok(Estimate::SCALAR);
        }
        let message = if name == "host" || name == "request" {
            format!("{name:?} must be followed by the name of a field, as in {name}.name")
        } else {
            format!("there is no variable {name:?}; there are host and request")
        };
        Err(CheckError { node, message })
    }

    fn field(
        &mut self,
        root: &str,
        field: &str,
        node: u64,
        is_presence_test: bool,
    ) -> Result<Estimate, CheckError> {
        let fields = if root == "host" {
            self.reads_host = true;
            fields::HOST_FIELDS
        } else {
            fields::REQUEST_FIELDS
        };
        if !fields.contains(&field) {
            let message = format!(
                "{root} has no field {field:?}; it has {}",
                fields.join(", ")
            );
            return Err(CheckError { node, message });
        }
        if is_presence_test {
            let message = format!("every {root} has the field {field:?}");
            return Err(CheckError { node, message });
        }
        Ok(Estimate {
            cost: 2,
            size: fields::TEXT_LENGTH_MAX,
            count: fields::LIST_LENGTH_MAX,
        })
    }

    fn call(&mut self, call: &'e CallExpr, node: u64) -> Result<Estimate, CheckError> {
        let name = call.func_name.as_str();
        // Operators are functions with names such as `_+_` and `!_`.
        let is_operator = name.contains('_') && !name.starts_with(char::is_alphabetic);
        if !is_operator && !FUNCTIONS.contains(&name) {
            let callable = FUNCTIONS.iter().filter(|name| !name.starts_with('@'));
            let callable: Vec<&str> = callable.copied().collect();
            let message = format!(
                "there is no function {name:?}; there are {}",
                callable.join(", ")
            );
            return Err(CheckError { node, message });
        }
        let mut total = Estimate {
            cost: 1,
            size: 0,
            count: 0,
        };
        let mut largest = Estimate::SCALAR;
        for argument in call.target.as_deref().into_iter().chain(&call.args) {
            let argument_estimate = self.estimate(argument)?;
            largest.size = largest.size.max(argument_estimate.size);
            largest.count = largest.count.max(argument_estimate.count);
            total = total.plus(argument_estimate);
        }
        // One step processes 1024 characters of text.
        let cost = total.cost.saturating_add(total.size / 1024);
        let (size, count) = match name {
            "_+_" => (total.size, total.count),
            "_?_:_" | "_[_]" | "string" | "dyn" => (largest.size, largest.count),
            // Every other function yields a number, a boolean or a type.
            _ => (1, 1),
        };
        Ok(Estimate { cost, size, count })
    }

    /// The upper bounds for a loop. The parser makes one of each `all`, `exists`, `map` and the like: it goes over the
    /// elements of `iter_range`, and keeps its result so far in the variable `accu_var`.
    fn comprehension(&mut self, node: &'e ComprehensionExpr) -> Result<Estimate, CheckError> {
        let range = self.estimate(&node.iter_range)?;
        let initial = self.estimate(&node.accu_init)?;
        let outer_count = self.variables.len();
        self.variables.push((&node.iter_var, range.size));
        if let Some(second) = &node.iter_var2 {
            self.variables.push((second, range.size));
        }
        // The accumulator counts as size 0 here: the growth by one iteration is multiplied below.
        self.variables.push((&node.accu_var, 0));
        let condition = self.estimate(&node.loop_cond)?;
        let step = self.estimate(&node.loop_step)?;
        self.variables.truncate(outer_count);
        let iteration_cost = condition.cost.saturating_add(step.cost);
        let accumulated_size = range
            .count
            .saturating_mul(step.size)
            .saturating_add(initial.size);
        self.variables.push((&node.accu_var, accumulated_size));
        let result = self.estimate(&node.result)?;
        self.variables.truncate(outer_count);
        let loop_cost = range.count.saturating_mul(iteration_cost);
        // To accumulate 64 characters or elements counts as one step.
        let accumulation_cost = accumulated_size / 64;
        Ok(Estimate {
            cost: range
                .cost
                .saturating_add(initial.cost)
                .saturating_add(loop_cost)
                .saturating_add(result.cost)
                .saturating_add(accumulation_cost),
            size: result.size,
            count: range.count,
        })
    }
}
