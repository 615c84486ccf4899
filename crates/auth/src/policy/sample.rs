//! Generates a sample policy file.

use crate::policy::rules::{BASE_RULES, Rule, RuleDefault};

/// The text of a `policy.yaml` with every rule, its description, the API requests that it
/// controls, and its default; everything is commented out, so that the file has no effect as it
/// is.
pub fn sample_policy() -> String {
    let mut text = String::from(
        "# Policies: who may do what.\n\
         #\n\
         # Every rule below shows its default. To change one, remove the # before its last line and\n\
         # write another rule. Some examples:\n\
         #\n\
         #   \"role:admin\"                      whoever has the role admin\n\
         #   \"role:reader and project_id:%(project_id)s\"\n\
         #                                     a reader of the project that the request is about\n\
         #   \"rule:admin_api or user_id:1a2b\"  whoever another rule allows, or one user\n\
         #   \"@\"                               everybody who is known\n\
         #   \"!\"                               nobody\n\
         #\n\
         # Whatever the rules say, requests with system or domain scope are refused while\n\
         # enforce_scope is on.\n",
    );
    for default in BASE_RULES {
        push_rule(&mut text, default);
    }
    for rule in Rule::ALL {
        push_rule(&mut text, rule.default());
    }
    text
}

fn push_rule(text: &mut String, default: &RuleDefault) {
    text.push('\n');
    text.push_str(&format!("# {}\n", default.description));
    for operation in default.operations {
        text.push_str(&format!("# {}  {}\n", operation.method, operation.path));
    }
    if let Some(deprecated) = default.deprecated_check {
        text.push_str(&format!(
            "# With enforce_new_defaults off also: {deprecated}\n"
        ));
    }
    text.push_str(&format!("#\"{}\": \"{}\"\n", default.name, default.check));
}
