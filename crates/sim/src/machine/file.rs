//! From the text of a machine file to a machine, and back to a line of the text where something is wrong.

use super::faults::contradiction;
use super::quantity::split;
use super::{Fault, MOST_FITTED, Machine, MachineError, Number, Origin, Spec};
use std::collections::BTreeMap;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// Checks what one number alone does not show.
fn check(spec: &Spec) -> Result<(), Fault> {
    spec.host.check()?;
    spec.topology.check(&spec.host.hosts)?;
    spec.adapter.check(&spec.topology, spec.host.hosts.0)
}

pub(super) fn read(file: &str, text: &str) -> Result<Machine, MachineError> {
    let wrong = |at: usize, what: &str| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        MachineError(format!("{file}:{line}: {what}"))
    };
    let spec: Spec = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, &sentence(error.message(), &path_at(text, at)))
    })?;
    check(&spec).map_err(|fault| wrong(fault.at, &fault.what))?;
    if let Some((index, what)) = contradiction(&spec.faults) {
        let at = text.match_indices("[[faults]]").nth(index);
        return Err(wrong(at.map_or(0, |(at, _)| at), &what));
    }
    let machine = Machine {
        spec,
        file: file.to_string(),
        text: toml::from_str(text).expect("it has been read"),
    };
    let numbers = machine.numbers();
    for number in &numbers {
        let Some(other) = &number.follows else { continue };
        if *other == number.path || numbers.iter().all(|it| it.path != *other) {
            let what = format!(
                "{} follows {other}, allowed is the path of another number",
                number.path
            );
            let at = text.find(&format!("follows = \"{other}\""));
            return Err(wrong(at.unwrap_or(0), &what));
        }
    }
    let fitted = machine.fitted().len();
    if fitted > MOST_FITTED {
        return Err(wrong(
            0,
            &format!("{fitted} numbers are fitted, allowed are {MOST_FITTED}"),
        ));
    }
    Ok(machine)
}

pub(super) fn read_again(file: &str, text: toml::Table) -> Result<Machine, MachineError> {
    let written = toml::to_string(&text).map_err(|error| MachineError(format!("{file}: {error}")))?;
    let mut machine = read(&format!("{file} (changed)"), &written)?;
    machine.file = file.to_string();
    Ok(machine)
}

/// What the parser says, in one line and in the words of machine files.
fn sentence(message: &str, path: &str) -> String {
    let message = message
        .replace("unknown field", "unknown key")
        .replace("missing field", "missing key")
        .replace("unknown variant", "unknown kind")
        .replace("duplicate key", "this key is there twice, allowed is once")
        .replace(
            "wanted exactly 1 element, more than 1 element",
            "there is more than one kind, allowed is one",
        )
        .replace(
            "wanted exactly 1 element, found 0 elements",
            "there is no kind, allowed is one",
        )
        .replace(", expected", ", allowed is")
        .replace("allowed is one of", "allowed are")
        .replace('\n', "; ");
    if path.is_empty() {
        message
    } else {
        format!("{path}: {message}")
    }
}

/// The keys that lead to what stands at a place of the text.
fn path_at(text: &str, at: usize) -> String {
    let Ok(table) = DeTable::parse(text) else {
        return String::new();
    };
    let mut path = Vec::new();
    find(table.get_ref(), at, &mut path);
    path.join(".")
}

/// Whether `at` is in the table's own entries; then their keys are in `path`. A key itself is not: it is what the table has wrongly.
fn find<'a>(table: &'a DeTable<'_>, at: usize, path: &mut Vec<&'a str>) -> bool {
    for (key, value) in table {
        if let DeValue::Table(inner) = value.get_ref() {
            path.push(key.get_ref());
            let header = value.span().contains(&at) && !key.span().contains(&at);
            if find(inner, at, path) || header || inner.keys().any(|key| key.span().contains(&at)) {
                return true;
            }
            path.pop();
        } else if value.span().contains(&at) {
            path.push(key.get_ref());
            return true;
        }
    }
    false
}

/// The origin of what has a value, if it is a number of a machine.
fn number(value: &Value) -> Option<(&Value, Origin)> {
    let table = value.as_table()?;
    let text = |key| table.get(key).and_then(Value::as_str).map(str::to_string);
    let origin = (text("source").map(Origin::Source))
        .or_else(|| text("fitted").map(Origin::Fitted))
        .or_else(|| text("assumed").map(Origin::Assumed))?;
    Some((table.get("value")?, origin))
}

pub(super) fn numbers(table: &toml::Table) -> Vec<Number> {
    fn walk(path: &str, value: &Value, found: &mut BTreeMap<String, Number>) {
        let below = |key: &dyn std::fmt::Display| match path {
            "" => key.to_string(),
            _ => format!("{path}.{key}"),
        };
        match value {
            _ if number(value).is_some() => {
                let (written, origin) = number(value).expect("seen");
                let written = match written {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let path = path.to_string();
                let number = Number {
                    path: path.clone(),
                    value: written,
                    origin,
                    follows: value.get("follows").and_then(Value::as_str).map(str::to_string),
                };
                found.insert(path, number);
            }
            Value::Table(table) => table
                .iter()
                .for_each(|(key, value)| walk(&below(key), value, found)),
            Value::Array(all) => {
                let all = all.iter().enumerate();
                all.for_each(|(index, value)| walk(&below(&index), value, found));
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    walk("", &Value::Table(table.clone()), &mut found);
    found.into_values().collect()
}

/// What stands at a path: the value of a number, or a choice.
fn at<'a>(table: &'a mut toml::Table, path: &str) -> Result<&'a mut Value, String> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut value = table.get_mut(first);
    for key in rest.split('.').filter(|key| !key.is_empty()) {
        value = match value {
            Some(Value::Table(table)) => table.get_mut(key),
            Some(Value::Array(all)) => key.parse().ok().and_then(|index: usize| all.get_mut(index)),
            _ => None,
        };
    }
    let value = value.ok_or_else(|| format!("there is nothing at {path}"))?;
    if number(value).is_some() {
        let table = value.as_table_mut().expect("a number's");
        return Ok(table.get_mut("value").expect("a number's"));
    }
    match value {
        Value::Table(_) | Value::Array(_) => Err(format!("there is no single number or choice at {path}")),
        _ => Ok(value),
    }
}

/// The number, and all that follow it.
pub(super) fn scale(table: &mut toml::Table, path: &str, factor: f64) -> Result<(), String> {
    let mut paths = vec![path.to_string()];
    let numbers = numbers(table);
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        scale_one(table, &path, factor)?;
        let followers = numbers
            .iter()
            .filter(|it| it.follows.as_ref() == Some(&path) && !paths.contains(&it.path));
        let followers: Vec<String> = followers.map(|it| it.path.clone()).collect();
        paths.extend(followers);
        next += 1;
    }
    Ok(())
}

fn scale_one(table: &mut toml::Table, path: &str, factor: f64) -> Result<(), String> {
    let value = at(table, path)?;
    *value = match &*value {
        Value::Integer(whole) => Value::Integer((*whole as f64 * factor).round() as i64),
        Value::Float(number) => Value::Float(number * factor),
        Value::String(text) => match split(text) {
            Some((number, unit @ "B")) => Value::String(format!("{} {unit}", (number * factor).round())),
            // Sizes in larger units stay whole bytes.
            Some((number, unit @ ("KiB" | "MiB" | "GiB"))) => {
                let each = 1u64 << (10 * (1 + "KMG".find(&unit[..1]).expect("one of them")));
                Value::String(format!("{} B", (number * factor * each as f64).round()))
            }
            Some((number, unit)) => Value::String(format!("{} {unit}", number * factor)),
            None => return Err(format!("{path} is \"{text}\", no number")),
        },
        other => return Err(format!("{path} is {other}, no number")),
    };
    Ok(())
}

pub(super) fn set(table: &mut toml::Table, path: &str, value: Value) -> Result<(), String> {
    *at(table, path)? = value;
    Ok(())
}
