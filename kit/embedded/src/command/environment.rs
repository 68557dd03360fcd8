//! Environment of a command: variables (`let`), collation, time.

use bson::{Bson, Document, doc};
use steadfast_query::{Collation, Environment, Expression, Fault};

use super::super::store::Collection;

/// Environment of a command with these arguments. The collation defaults to that of the collection.
pub(crate) fn command_environment(
    env: &Environment,
    variables: Option<&Document>,
    collation: Option<&Document>,
    collection: Option<&Collection>,
) -> Result<Environment, Fault> {
    let mut environment = Environment::new(env.now, env.cluster_time, env.next_random());
    environment.dialect = env.dialect;
    let default = collection.and_then(|it| it.options().get_document("collation").ok());
    if let Some(collation) = collation.filter(|it| !it.is_empty()).or(default) {
        environment.collation = Collation::parse(collation)?;
    }
    // A variable can use those before it.
    for (name, value) in variables.into_iter().flatten() {
        check_name(name, &environment)?;
        let expression = Expression::parse(value, &environment)?;
        if reads_documents(value) {
            return Err(Fault::location(
                4_890_500,
                "Command let Expression tried to access a field, but this is not allowed because \
                 Command let Expressions run before the query examines any documents.",
            ));
        }
        if let Some(value) = expression.evaluate(&Document::new(), &environment)? {
            environment.variables.insert(name, value);
        }
    }
    Ok(environment)
}

/// Rejects the names of variables that `$let` rejects.
fn check_name(name: &str, env: &Environment) -> Result<(), Fault> {
    let named = doc! { "$let": { "vars": { name: 1 }, "in": 1 } };
    match Expression::parse(&named.into(), env) {
        Ok(_) => Ok(()),
        Err(fault) => Err(Fault {
            message: format!("Invalid 'let' parameter :: caused by :: {}", fault.message),
            ..fault
        }),
    }
}

/// Returns `true` if an expression contains a field path.
fn reads_documents(expression: &Bson) -> bool {
    match expression {
        Bson::String(text) => match text.strip_prefix("$$") {
            Some(variable) => {
                let name = variable.split('.').next().unwrap_or_default();
                matches!(name, "ROOT" | "CURRENT")
            }
            None => text.starts_with('$'),
        },
        Bson::Document(fields) => {
            fields.iter().any(|(name, value)| name != "$literal" && reads_documents(value))
        }
        Bson::Array(elements) => elements.iter().any(reads_documents),
        _ => false,
    }
}

/// Copies an environment for use after the command.
pub(crate) fn copy_environment(env: &Environment) -> Environment {
    let mut again = Environment::new(env.now, env.cluster_time, env.next_random());
    again.dialect = env.dialect;
    again.variables = env.variables.clone();
    again.collation = env.collation.clone();
    again
}
