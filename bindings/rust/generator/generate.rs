//! A function for every form of every op, from schema.json.
//!
//! Arguments without a default become parameters. The others become fields of a struct with `Default`, which the
//! function whose name ends in `_with` takes: `conv2d(&x, &w)`, `conv2d_with(&x, &w, Conv2dOptions { stride: &[2, 2],
//! ..Default::default() })`. Functions stand in `ops`; those of a tensor are its methods as well.

use crate::json::Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Methods that are written by hand, or would hide one of Rust's.
const BY_HAND: &[&str] = &["clone", "detach"];
const KEYWORDS: &[&str] = &[
    "as", "box", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern", "false", "fn", "for", "if", "impl", "in",
    "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "static", "struct", "super", "trait", "true", "type",
    "unsafe", "use", "where", "while", "yield", "final", "override", "priv", "try", "macro", "abstract", "become", "do",
];

struct Argument {
    name: String, // as Rust writes it
    schema: String,
    default: Option<Json>,
}

struct Function {
    name: String,
    base: String, // the op's, which its forms share
    key: String,
    doc: String,
    arguments: Vec<Argument>,
    results: Vec<String>,
    writes: bool, // in place, or to `out`
    method: bool,
}

pub fn functions(schema: &Json) -> Result<String, String> {
    if *schema.get("format") != Json::Int(1) {
        return Err("this crate reads format 1".into());
    }
    let rows: Vec<&Json> = schema.get("ops").list().iter().filter(|row| !row.get("name").text().starts_with('_')).collect();
    let mut overloads = BTreeMap::new(); // how many there are of a name
    for row in &rows {
        *overloads.entry((row.get("name").text(), row.get("form").text())).or_insert(0) += 1;
    }
    let full: BTreeSet<String> = rows.iter().map(|row| function_name(row, false)).collect();
    let mut used = BTreeSet::new();
    let mut known = Known::new();
    let mut text = String::new();
    let mut methods = String::new();
    for row in rows {
        let alone = overloads[&(row.get("name").text(), row.get("form").text())] == 1;
        let short = function_name(row, true);
        let name = if alone && !full.contains(&short) { short } else { function_name(row, false) };
        let function = read(row, name);
        if !used.insert(function.name.clone()) {
            return Err(format!("two functions would be called {}", function.name));
        }
        let shape = shape_of(&function, 0)?;
        let options = options_of(&mut text, &function, &shape, &mut known)?;
        write_function(&mut text, &function, &shape, &options);
        if function.method && !BY_HAND.contains(&function.name.as_str()) {
            write_method(&mut methods, &function, &options)?;
        }
    }
    write!(text, "impl Tensor {{\n{methods}}}\n").unwrap();
    Ok(text)
}

fn read(row: &Json, name: String) -> Function {
    let form = row.get("form").text();
    let mut arguments: Vec<Argument> = row.get("arguments").list().iter().map(argument).collect();
    if form == "inplace" {
        arguments[0].schema = "Tensor".into(); // also where the op itself takes a number
    }
    let twice = arguments.iter().any(|a| a.name == "input");
    for a in arguments.iter_mut().filter(|a| a.name == "self") {
        a.name = if twice { "this" } else { "input" }.into();
    }
    Function {
        base: match form {
            "function" => name.clone(),
            _ => name.trim_end_matches("_out").trim_end_matches('_').into(),
        },
        name,
        key: row.get("key").text().into(),
        doc: row.get("doc").text().into(),
        method: form != "out" && row.get("method").is_true() && row.get("arguments").list()[0].get("name").text() == "self",
        arguments,
        results: row.get("results").list().iter().map(|r| r.get("type").text().to_string()).collect(),
        writes: form != "function",
    }
}

/// `max`, `max_dim`, `add_`, `div_mode_`, `max_dim_out`; the short one is without the overload.
fn function_name(row: &Json, short: bool) -> String {
    let form = row.get("form").text();
    let name = row.get("name").text();
    let overload = row.get("overload").text().to_lowercase();
    let mut made = if form == "inplace" { name.strip_suffix('_').unwrap_or(name) } else { name }.to_string();
    if !overload.is_empty() && !short {
        made = format!("{made}_{overload}");
    }
    match form {
        "inplace" => made + "_",
        "out" => made + "_out",
        _ => raw(&made),
    }
}

fn raw(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        format!("r#{name}")
    } else {
        name.into()
    }
}

fn argument(row: &Json) -> Argument {
    let name = row.get("name").text();
    Argument {
        name: raw(name),
        schema: row.get("type").text().into(),
        default: if row.has("default") { Some(row.get("default").clone()) } else { None },
    }
}

/// `int[2]?`: the word, whether it is a list, whether it may be left out.
fn parts(schema: &str) -> (&str, bool, bool) {
    let optional = schema.ends_with('?');
    let schema = schema.trim_end_matches('?');
    match schema.find('[') {
        Some(open) => (&schema[..open], true, optional),
        None => (schema, false, optional),
    }
}

/// The type of a parameter, or of a field, where references live for `'a`.
fn rust_type(schema: &str, field: bool) -> Result<String, String> {
    let (word, list, optional) = parts(schema);
    let life = if field { "'a " } else { "" };
    let made = match (word, list) {
        ("Tensor", false) => format!("&{life}Tensor"),
        ("Tensor", true) if field => "&'a [&'a Tensor]".into(),
        ("Tensor", true) => "&[impl Borrow<Tensor>]".into(),
        ("Operand", _) if field => "Operand<'a>".into(),
        ("Operand", _) => "impl AsOperand".into(),
        ("Scalar", _) if field || optional => "Scalar".into(),
        ("Scalar", _) => "impl Into<Scalar>".into(),
        ("int", true) => format!("&{life}[i64]"),
        ("float", true) => format!("&{life}[f64]"),
        ("int", false) => "i64".into(),
        ("float", false) => "f64".into(),
        ("bool", false) => "bool".into(),
        ("str", false) => format!("&{life}str"),
        ("dtype", false) => "DType".into(),
        ("device", false) => "Device".into(),
        ("memory_format", false) => "MemoryFormat".into(),
        ("layout", false) => "Layout".into(),
        ("Generator", false) => format!("&{life}Generator"),
        _ => return Err(format!("a type that this crate does not know: {schema}")),
    };
    Ok(if optional { format!("Option<{made}>") } else { made })
}

fn result_type(results: &[String]) -> Result<String, String> {
    let one = |schema: &String| match schema.as_str() {
        "Tensor" => Ok("Tensor"),
        "Tensor[]" => Ok("Vec<Tensor>"),
        "bool" => Ok("bool"),
        "int" => Ok("i64"),
        "float" => Ok("f64"),
        "Scalar" => Ok("Scalar"),
        other => Err(format!("a result that this crate does not know: {other}")),
    };
    let all: Result<Vec<&str>, String> = results.iter().map(one).collect();
    let all = all?;
    Ok(if all.len() == 1 { all[0].into() } else { format!("({})", all.join(", ")) })
}

fn value_of(default: &Json, schema: &str) -> Result<String, String> {
    let (word, _, _) = parts(schema);
    Ok(match default {
        Json::Null => "None".into(),
        Json::Bool(b) => b.to_string(),
        Json::Int(n) if word == "Scalar" => format!("Scalar::Int({n})"),
        Json::Float(n) if word == "Scalar" => format!("Scalar::Float({n:?})"),
        Json::Int(n) => n.to_string(),
        Json::Float(n) => format!("{n:?}"),
        Json::Text(t) if word == "memory_format" => match t.as_str() {
            "contiguous_format" => "MemoryFormat::Contiguous".into(),
            "preserve_format" => "MemoryFormat::Preserve".into(),
            _ => return Err(format!("a memory format that this crate does not know: {t}")),
        },
        Json::Text(t) => format!("{t:?}"),
        Json::List(items) => {
            let all: Result<Vec<String>, String> = items.iter().map(|i| value_of(i, word)).collect();
            format!("&[{}]", all?.join(", "))
        }
        Json::Object(_) => return Err("an object as a default".into()),
    })
}

fn bare(name: &str) -> &str {
    name.trim_start_matches("r#")
}

/// `Conv2dOptions` of `conv2d`; the forms of an op share one where they take the same.
fn options_name(function: &str, form: &str) -> String {
    let words = bare(function).split('_').filter(|w| !w.is_empty());
    let camel: String = words.map(|w| w[..1].to_uppercase() + &w[1..]).collect();
    camel + form + "Options"
}

/// `conv2d_with`, `add_with_`: the name of the function that takes options.
fn with_options(name: &str) -> String {
    match name.strip_suffix('_') {
        Some(function) => format!("{function}_with_"),
        None => format!("{}_with", bare(name)),
    }
}

/// The structs that are written, by name, with their fields.
type Known = BTreeMap<String, String>;

struct Shape {
    required: Vec<String>, // "weight: &Tensor"
    returned: String,
    fields: Vec<String>, // "pub stride: &'a [i64]"
    borrows: bool,       // whether a field does
}

fn shape_of(f: &Function, skip: usize) -> Result<Shape, String> {
    let mut shape = Shape { required: vec![], returned: "()".into(), fields: vec![], borrows: false };
    for (i, a) in f.arguments.iter().enumerate() {
        if a.default.is_some() {
            let kind = rust_type(&a.schema, true)?;
            shape.borrows |= kind.contains("'a");
            shape.fields.push(format!("pub {}: {kind}", a.name));
        } else if i >= skip {
            shape.required.push(format!("{}: {}", a.name, rust_type(&a.schema, false)?));
        }
    }
    if !f.writes {
        shape.returned = result_type(&f.results)?;
    }
    Ok(shape)
}

/// The name of a function's struct of options, which is written if none is there yet; none where it has no options.
fn options_of(text: &mut String, f: &Function, shape: &Shape, known: &mut Known) -> Result<Option<String>, String> {
    if shape.fields.is_empty() {
        return Ok(None);
    }
    let defaults: Vec<String> = f.arguments.iter().map(|a| format!("{:?}", a.default)).collect();
    let meaning = shape.fields.join(", ") + &defaults.concat();
    let mut name = options_name(&f.base, "");
    if known.get(&name).map_or(false, |other| *other != meaning) {
        name = options_name(&f.base, if f.name.ends_with('_') { "InPlace" } else { "Out" });
    }
    if known.insert(name.clone(), meaning).is_none() {
        write_options(text, f, &name, shape)?;
    }
    Ok(Some(name))
}

fn write_function(text: &mut String, f: &Function, shape: &Shape, options: &Option<String>) {
    let returned = &shape.returned;
    let required = shape.required.join(", ");
    let names: Vec<&str> = f.arguments.iter().filter(|a| a.default.is_none()).map(|a| a.name.as_str()).collect();
    let mut name = f.name.clone();
    let mut params = required.clone();
    if let Some(options) = options {
        let given = if names.is_empty() { String::new() } else { names.join(", ") + ", " };
        name = with_options(&f.name);
        writeln!(text, "#[doc = {:?}]\n#[inline]\npub fn {}({required}) -> Result<{returned}> {{\n    {name}({given}Default::default())\n}}", f.doc, f.name).unwrap();
        params = [required, format!("options: {options}{}", if shape.borrows { "<'_>" } else { "" })].join(", ");
        params = params.trim_start_matches(", ").into();
    }
    writeln!(text, "#[doc = {:?}]\n#[inline]\npub fn {name}({params}) -> Result<{returned}> {{", f.doc).unwrap();
    writeln!(text, "    static OP: Op = Op::new({:?});", f.key.clone() + "\0").unwrap();
    writeln!(text, "    let mut call_ = Call::new({});", f.arguments.len()).unwrap();
    for a in &f.arguments {
        let from = if a.default.is_some() { "options." } else { "" };
        let (word, list, _) = parts(&a.schema);
        let method = if word == "Tensor" && list { "put_tensors" } else { "put" };
        let into = match word {
            "Operand" => format!("{from}{}.as_operand()", a.name),
            "Scalar" if a.schema == "Scalar" => format!("Into::<Scalar>::into({from}{})", a.name),
            _ => format!("{from}{}", a.name),
        };
        writeln!(text, "    call_.{method}({into});").unwrap();
    }
    let takes = vec!["made_.take()?"; f.results.len()].join(", ");
    let count = f.results.len();
    if f.writes {
        writeln!(text, "    call_.run(&OP, {count})?;\n    Ok(())\n}}").unwrap();
    } else {
        writeln!(text, "    let mut made_ = call_.run(&OP, {count})?;\n    Ok(({takes}))\n}}").unwrap();
    }
}

fn write_options(text: &mut String, f: &Function, name: &str, shape: &Shape) -> Result<(), String> {
    let (own, any) = if shape.borrows { ("<'a>", "<'_>") } else { ("", "") };
    writeln!(text, "/// What [`{}`] takes besides.\n#[derive(Clone, Copy)]\npub struct {name}{own} {{", with_options(&f.name)).unwrap();
    let optional = || f.arguments.iter().filter_map(|a| a.default.as_ref().map(|d| (a, d)));
    for field in &shape.fields {
        writeln!(text, "    {field},").unwrap();
    }
    writeln!(text, "}}\nimpl Default for {name}{any} {{\n    fn default() -> Self {{\n        Self {{").unwrap();
    for (a, default) in optional() {
        writeln!(text, "            {}: {},", a.name, value_of(default, &a.schema)?).unwrap();
    }
    writeln!(text, "        }}\n    }}\n}}").unwrap();
    Ok(())
}

/// A method is the function with the tensor in front.
fn write_method(text: &mut String, f: &Function, options: &Option<String>) -> Result<(), String> {
    let shape = shape_of(f, 1)?;
    let returned = &shape.returned;
    let names: Vec<String> = f.arguments.iter().skip(1).filter(|a| a.default.is_none()).map(|a| a.name.clone()).collect();
    let comma = |all: &[String]| all.iter().map(|one| format!(", {one}")).collect::<String>();
    let (params, given) = (comma(&shape.required), comma(&names));
    let mut one = |name: &str, params: &str, given: &str| {
        writeln!(text, "    #[doc = {:?}]\n    #[inline]\n    pub fn {name}(&self{params}) -> Result<{returned}> {{\n        {name}(self{given})\n    }}", f.doc).unwrap();
    };
    one(&f.name, &params, &given);
    if let Some(options) = options {
        let life = if shape.borrows { "<'_>" } else { "" };
        one(&with_options(&f.name), &format!("{params}, options: {options}{life}"), &format!("{given}, options"));
    }
    Ok(())
}
