//! [`crate::syntax::ast::Ast`] → [`crate::hir::Program`]: names, types, probes.

// One recursion in several files: each expression may hold any other.
mod errnos;
mod constants;
mod convert;
mod registers;
mod served;
mod usdt;
mod uses;

mod layout;
pub mod types;

pub mod probes;

mod checker;

pub mod builtins;
mod arguments;
mod assign;
mod served_calls;
mod calls;
mod expr;
mod place;
mod statement;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bpf::KernelFacts;

use crate::config::{Config, Value as Setting};
use crate::diagnostic::{Code, Diagnostic, Findings};
use crate::glob::Pattern;
use crate::hir;
use crate::options::Options;
use crate::schema::{self, Counter, MapId, MapValue, ProgramId, Schema, Storage};
use crate::syntax::ast::{self, Ast, Item};
use crate::types::{Space, Type};
use checker::{Checker, Key};
use convert::{constant, is_unknown};
use probes::{Args, Expander, Variant};
use types::{Resolver, settle};
use uses::Macros;

/// Passes over a program until its types are settled; a program that needs more has types
/// that depend on each other without end, which joining rules out.
const MOST_PASSES: usize = 24;

/// Checks a program. `None` when it has errors, which are among the findings.
pub fn check(
    ast: &Ast,
    facts: &dyn KernelFacts,
    options: &Options<'_>,
    findings: &Findings,
) -> Option<hir::Program> {
    let mut config = settings(ast, options, findings);
    config.report_helper_errors = options.report_helper_errors;
    let resolver = Resolver::new(facts);
    layout::declare(ast, &resolver, findings);
    let macros = macros(ast, findings);
    let functions: Vec<&ast::Function> = items(ast, |item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    });
    let probe_items: Vec<&ast::Probe> = items(ast, |item| match item {
        Item::Probe(probe) => Some(probe),
        _ => None,
    });
    if probe_items.is_empty() && !findings.has_errors() {
        let message = "there is no probe in this program, so there is nothing to do";
        findings.add(
            Diagnostic::error(Code::NoProbes, crate::source::Span::new(0, 0), message)
                .help("a program is PROBE { ACTION }: begin { printf(\"hello\\n\"); }"),
        );
    }
    let expander = Expander {
        facts,
        environment: options.environment,
        resolver: &resolver,
        config: &config,
        findings,
        pid: options.pid,
        serve: options.serve_tracepoints,
        missing_is_error: ast.items.iter().any(|item| {
            matches!(item, Item::Setting(setting) if crate::config::canonical_name(&setting.name.text) == "missing_probes")
        }) || options.settings.iter().any(|(name, _)| crate::config::canonical_name(name) == "missing_probes"),
        warned: Default::default(),
        syscall_probes: syscall_probes(&probe_items),
    };
    let mut variants = expander.expand(&probe_items, &macros);
    if !options.keep_tests {
        variants.retain(|variant| {
            !matches!(variant.probe_type, probes::ProbeType::Test | probes::ProbeType::Bench)
        });
    }
    serve_or_fall_back(&mut variants, &resolver, facts, options, &config);
    let mut checker = Checker::new(&resolver, facts, options, &config, findings, &macros, &functions);
    checker.incomplete = findings.has_errors();
    check_functions(&mut checker, &functions);
    declare_maps(&mut checker, ast);
    let mut passes = 0;
    let (probes, bodies) = loop {
        passes += 1;
        let last = passes > 1 && !checker.changed || passes == MOST_PASSES;
        checker.start_pass(last);
        let before = findings.count();
        let made = one_pass(&mut checker, &variants, &probe_items, &functions);
        if last {
            break made;
        }
        findings.truncate(before);
    };
    if findings.has_errors() {
        return None;
    }
    unexpected_options(&checker, options, findings);
    let mut schema = finish(checker, &variants, &config, findings)?;
    schema.config = config;
    schema.types = resolver.into_table();
    Some(hir::Program { probes, functions: bodies, schema: *schema })
}

/// Options given that no `getopt` asks for: most likely misspelt. `--help` asks for the list.
fn unexpected_options(checker: &Checker<'_>, options: &Options<'_>, findings: &Findings) {
    for (name, _) in &options.named {
        let known = checker.named_options.iter().map(|option| option.name.as_str());
        if name == "help" || known.clone().any(|known| known == name) {
            continue;
        }
        let message = format!("the program has no option --{name}");
        let finding = Diagnostic::error(Code::BadArguments, crate::source::Span::NONE, message);
        let all = known.clone().map(|known| format!("--{known}")).collect::<Vec<_>>().join(", ");
        let help = if all.is_empty() { "it asks for none".into() } else { format!("it asks for {all}") };
        findings.add(finding.help(help).suggest(name, known));
    }
}

fn items<'a, T>(ast: &'a Ast, pick: impl Fn(&'a Item) -> Option<T>) -> Vec<T> {
    ast.items.iter().filter_map(pick).collect()
}

fn settings(ast: &Ast, options: &Options<'_>, findings: &Findings) -> Config {
    let mut config = Config::default();
    for item in &ast.items {
        let Item::Setting(setting) = item else { continue };
        match config.set(&setting.name.text, &setting.value) {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                let name = crate::config::canonical_name(&setting.name.text);
                findings.add(Diagnostic::error(Code::BadConfig, setting.span, format!("{name} {why}")));
            }
            None => {
                let name = &setting.name.text;
                let names = crate::config::VARIABLES.iter().map(|(name, _)| *name);
                let finding = Diagnostic::error(
                    Code::UnknownConfig,
                    setting.name.span,
                    format!("there is no setting '{name}'"),
                );
                findings.add(finding.suggest(&crate::config::canonical_name(name), names));
            }
        }
    }
    // The environment overrides the program.
    for (name, value) in &options.settings {
        if let Some(Err(why)) = config.set(name, &Setting::from_text(value)) {
            findings.add(Diagnostic::error(
                Code::BadConfig,
                crate::source::Span::NONE,
                format!("{name} {why}"),
            ));
        }
    }
    config
}

fn macros<'a>(ast: &'a Ast, findings: &Findings) -> Macros<'a> {
    let mut macros: Macros<'a> = BTreeMap::new();
    for item in &ast.items {
        let Item::Macro(found) = item else { continue };
        let kinds = |found: &ast::Macro| -> Vec<char> {
            let kind =
                |name: &ast::Text| name.text.chars().next().filter(|c| "$@".contains(*c)).unwrap_or(' ');
            found.parameters.iter().map(kind).collect()
        };
        let all = macros.entry(&found.name.text).or_default();
        if let Some(have) = all.iter().find(|have| kinds(have) == kinds(found)) {
            let message = format!("the macro '{}' is defined twice for the same arguments", found.name.text);
            findings.add(
                Diagnostic::error(Code::Duplicate, found.name.span, message)
                    .note(have.name.span, "first defined here"),
            );
        }
        all.push(found);
    }
    macros
}

fn syscall_probes(probes: &[&ast::Probe]) -> (usize, usize) {
    let mut counts = (0, 0);
    for probe in probes {
        let (mut enter, mut exit) = (false, false);
        for point in &probe.attach_points {
            let [provider, category, name] = point.parts.as_slice() else { continue };
            if !matches!(provider.text.as_str(), "tracepoint" | "t")
                || !Pattern::new(&category.text).matches("syscalls")
            {
                continue;
            }
            let wild = crate::glob::has_wildcard(&name.text);
            enter |= name.text.starts_with("sys_enter") || wild && !name.text.starts_with("sys_exit");
            exit |= name.text.starts_with("sys_exit") || wild && !name.text.starts_with("sys_enter");
        }
        counts.0 += usize::from(enter);
        counts.1 += usize::from(exit);
    }
    counts
}

/// Checks the expressions of served tracepoints against this kernel; those that do not check
/// attach to the tracepoint itself.
fn serve_or_fall_back(
    variants: &mut [Variant],
    resolver: &Resolver<'_>,
    facts: &dyn KernelFacts,
    options: &Options<'_>,
    config: &Config,
) {
    for variant in variants {
        let Some(fallback) = variant.fallback.take() else { continue };
        if !serves(variant, resolver, facts, options, config) {
            *variant = *fallback;
        }
    }
}

fn serves(
    variant: &Variant,
    resolver: &Resolver<'_>,
    facts: &dyn KernelFacts,
    options: &Options<'_>,
    config: &Config,
) -> bool {
    let findings = Findings::default();
    let macros = BTreeMap::new();
    let mut checker = Checker::new(resolver, facts, options, config, &findings, &macros, &[]);
    checker.start_pass(true);
    checker.start_body(0, Some(variant), None);
    let Args::Served { served, view, .. } = &variant.args else { return true };
    let span = variant.targets[0].span;
    let mut works = true;
    for (_, expr) in &served.fields {
        let value = checker.over_raw(view, span, |this| this.rvalue(expr));
        works &= !is_unknown(&value) && value.ty != Type::Void;
    }
    if let Some(calls) = &served.calls {
        works &= checker.is_of(calls, view, span).ty == Type::Bool;
    }
    works && !findings.has_errors()
}

fn check_functions<'a>(checker: &mut Checker<'a>, functions: &'a [&'a ast::Function]) {
    checker.start_body(usize::MAX, None, None);
    for (index, function) in functions.iter().enumerate() {
        if let Some(first) = functions[..index].iter().find(|have| have.name.text == function.name.text) {
            let message = format!("the function '{}' is defined twice", function.name.text);
            let finding = Diagnostic::error(Code::Duplicate, function.name.span, message);
            checker.findings.add(finding.note(first.name.span, "first defined here"));
        }
        let parameters: Vec<Type> =
            function.parameters.iter().map(|(_, ty)| checker.type_of(ty).unwrap_or(Type::I64)).collect();
        let result = checker.type_of(&function.result).unwrap_or(Type::Void);
        for ((name, _), ty) in function.parameters.iter().zip(&parameters) {
            if !ty.is_scalar() {
                let message =
                    format!("a fn takes integers and pointers, and {} is a {}", name.text, checker.show(ty));
                checker.error(Code::TypeMismatch, name.span, message);
            }
        }
        if function.parameters.len() > 5 {
            let message = "a fn takes at most 5 arguments: BPF passes no more";
            checker.error(Code::TooLarge, function.name.span, message);
        }
        if !result.is_scalar() && result != Type::Void {
            let message = format!("a fn returns an integer or a pointer, not a {}", checker.show(&result));
            checker.error(Code::TypeMismatch, function.result.span, message);
        }
        checker.function_types.push((parameters, result));
    }
}

fn declare_maps<'a>(checker: &mut Checker<'a>, ast: &'a Ast) {
    for item in &ast.items {
        let Item::Map(declaration) = item else { continue };
        let storage = match declaration.kind.text.as_str() {
            "hash" => Storage::Hash,
            "lruhash" => Storage::LruHash,
            "percpuhash" => Storage::PerCpuHash,
            "percpulruhash" => Storage::PerCpuLruHash,
            other => {
                let kinds = ["hash", "lruhash", "percpuhash", "percpulruhash"];
                let message = format!("there is no kind of map '{other}'");
                let finding = Diagnostic::error(Code::BadMapDeclaration, declaration.kind.span, message);
                let finding = finding.help("kinds are hash, lruhash, percpuhash, percpulruhash");
                checker.findings.add(finding.suggest(other, kinds));
                continue;
            }
        };
        let value = declaration.entries.as_ref().map(|entries| checker.rvalue(entries));
        let entries = match value.as_ref().and_then(constant) {
            Some(entries) if (1..=1 << 30).contains(&entries) => entries as u32,
            _ => {
                let message = "a map is declared with its greatest number of entries";
                checker.error(Code::BadMapDeclaration, declaration.span, message);
                continue;
            }
        };
        let map = checker.map(&declaration.name.text, declaration.span);
        if checker.map_info(map).declared.is_some() {
            let first = checker.map_info(map).span;
            let message = format!("{} is declared twice", declaration.name.text);
            let finding = Diagnostic::error(Code::Duplicate, declaration.span, message);
            checker.findings.add(finding.note(first, "first declared here"));
            continue;
        }
        checker.map_info(map).declared = Some((storage, entries));
    }
}

fn one_pass<'a>(
    checker: &mut Checker<'a>,
    variants: &'a [Variant],
    probes: &[&'a ast::Probe],
    functions: &'a [&'a ast::Function],
) -> (Vec<hir::Probe>, Vec<hir::Function>) {
    let mut out = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let probe = probes[variant.probe];
        checker.start_body(index, Some(variant), None);
        let predicate = probe.predicate.as_ref().map(|predicate| checker.condition(predicate));
        let own = match &variant.args {
            Args::Served { served, view, .. } => {
                served.calls.as_ref().map(|calls| checker.is_of(calls, view, probe.span))
            }
            _ => None,
        };
        // Always true: no predicate. Always false stays, so that the program can count what it saw.
        let predicate = predicate.filter(|predicate| constant(predicate) != Some(1));
        let block = checker.block(&probe.body);
        let locals = checker.finish_locals();
        let body = hir::Body { locals, block };
        out.push(hir::Probe { program: ProgramId(index as u32), own, predicate, body });
    }
    let mut bodies = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let (parameters, result) = checker.function_types[index].clone();
        checker.start_body(variants.len() + index, None, Some(result.clone()));
        checker.open_scope();
        for ((name, _), ty) in function.parameters.iter().zip(&parameters) {
            let local = checker.declare_local(&name.text, name.span);
            checker.fix_local(local, ty.clone());
        }
        let block = function_body(checker, function, &result);
        checker.close_scope();
        let locals = checker.finish_locals();
        bodies.push(hir::Function {
            name: function.name.text.clone(),
            parameters: parameters.len() as u32,
            result,
            body: hir::Body { locals, block },
            span: function.span,
        });
    }
    (out, bodies)
}

/// The statements of a `fn`; a last expression is its result.
fn function_body<'a>(checker: &mut Checker<'a>, function: &'a ast::Function, result: &Type) -> hir::Block {
    if *result == Type::Void || function.body.value.is_none() {
        return checker.block(&function.body);
    }
    let value = checker.block_expr(&function.body, function.body.span);
    let (mut block, value) = match value.kind {
        hir::ExprKind::Block { statements, value: Some(value) } => (statements, *value),
        _ => (Vec::new(), value),
    };
    if is_unknown(&value) {
        return block;
    }
    let span = value.span;
    match checker.coerce(value.clone(), result) {
        Some(value) => block.push(hir::Statement { kind: hir::StatementKind::Return(Some(value)), span }),
        None => {
            let message =
                format!("this fn returns {}, not a {}", checker.show(result), checker.show(&value.ty));
            checker.error(Code::BadReturn, span, message);
        }
    }
    block
}

fn finish(
    checker: Checker<'_>,
    variants: &[Variant],
    config: &Config,
    findings: &Findings,
) -> Option<Box<Schema>> {
    let mut maps = Vec::new();
    for info in &checker.maps {
        let (key, value) = match (&info.key, &info.value) {
            (key, Some(value)) => (key.clone().unwrap_or(Key::Scalar), value.clone()),
            (_, None) => {
                if !info.used {
                    let message = format!("{} is declared and not used", info.name);
                    findings.add(Diagnostic::warning(Code::UnusedDeclaration, info.span, message));
                }
                // Declared but never written: it has no types, and takes no memory.
                (Key::Scalar, MapValue::Plain(Type::I64))
            }
        };
        let key = match key {
            Key::Scalar => None,
            Key::Of(ty) => Some(kernel_pointers(settle(ty))),
        };
        let value = match value {
            MapValue::Plain(ty) => MapValue::Plain(kernel_pointers(settle(ty))),
            other => other,
        };
        let natural = match (&key, value.is_aggregate()) {
            (None, false) => Storage::Scalar,
            (None, true) => Storage::PerCpuScalar,
            (Some(_), false) => Storage::Hash,
            (Some(_), true) => Storage::PerCpuHash,
        };
        let (storage, capacity) = match (info.declared, &key) {
            (Some((declared, capacity)), Some(_)) => {
                if declared.per_cpu() != value.is_aggregate() {
                    let (is, needs) = if value.is_aggregate() {
                        ("aggregates", "percpuhash or percpulruhash")
                    } else {
                        ("plain values", "hash or lruhash")
                    };
                    let message = format!("{} holds {is}, which need {needs}", info.name);
                    findings.add(Diagnostic::error(Code::BadMapDeclaration, info.span, message));
                }
                (declared, capacity)
            }
            (Some(_), None) if info.used && info.value.is_some() => {
                let message = format!("{} has no keys, so its declaration says nothing", info.name);
                findings.add(Diagnostic::warning(Code::BadMapDeclaration, info.span, message));
                (natural, 1)
            }
            (_, None) => (natural, 1),
            (None, Some(_)) => (natural, config.max_map_keys),
        };
        // Limits of the kernel: 512 bytes of key without strings are plenty, and a value per CPU has 32 KiB.
        let key_bytes = key.as_ref().map_or(0, Type::size);
        if key_bytes > 64 * 1024 {
            let message = format!("the key of {} has {key_bytes} bytes; 64 KiB is the most", info.name);
            findings.add(Diagnostic::error(Code::TooLarge, info.span, message));
        }
        if storage.per_cpu() && value.size() > 32 * 1024 {
            let message = format!(
                "a value of {} has {} bytes; on each CPU 32 KiB is the most",
                info.name,
                value.size()
            );
            findings.add(Diagnostic::error(Code::TooLarge, info.span, message));
        }
        if let Some(key) = &key {
            checker.resolver.load(key);
        }
        maps.push(schema::Map { name: info.name.clone(), key, value, storage, capacity, span: info.span });
    }
    if findings.has_errors() {
        return None;
    }
    let programs: Vec<schema::Program> = variants
        .iter()
        .enumerate()
        .map(|(index, variant)| schema::Program {
            name: program_name(&variant.targets[0].name, index),
            kind: variant.kind,
            targets: variant.targets.clone(),
            cookies: variant.cookies,
            span: variant.targets[0].span,
            sleepable: false,
        })
        .collect();
    let mut counters = Vec::new();
    for index in 0..programs.len() as u32 {
        counters.push(Counter::Seen(ProgramId(index)));
        counters.push(Counter::Filtered(ProgramId(index)));
    }
    for index in 0..maps.len() as u32 {
        counters.push(Counter::MapFull(MapId(index)));
        counters.push(Counter::MapFailed(MapId(index)));
    }
    for index in 0..checker.records.len() as u32 {
        counters.push(Counter::RingFull(schema::EmitId(index)));
    }
    counters.extend([Counter::StackLost, Counter::ReadFailed, Counter::DividedByZero]);
    Some(Box::new(Schema {
        stack_maps: stack_maps(&maps, &checker.records),
        maps,
        records: checker.records,
        programs,
        time_formats: checker.time_formats,
        strings: checker.strings,
        types: crate::types::TypeTable::default(),
        config: Config::default(),
        counters,
        options: checker.named_options,
        selects: checker.selects,
    }))
}

/// Pointers in maps lose what the verifier knew of them.
fn kernel_pointers(ty: Type) -> Type {
    match ty {
        Type::Pointer { to, space: Space::Btf } => Type::Pointer { to, space: Space::Kernel },
        Type::Tuple(fields) => Type::named_tuple(
            fields.iter().map(|field| (field.name.clone(), kernel_pointers(field.ty.clone()))),
        ),
        other => other,
    }
}

/// Depths of stacks that values can hold.
fn stack_maps(maps: &[schema::Map], records: &[schema::EmittedRecord]) -> Vec<schema::StackMap> {
    fn add(ty: &Type, out: &mut Vec<schema::StackMap>) {
        match ty {
            Type::Stack(stack) => {
                let map = schema::StackMap { user: stack.user, limit: stack.limit };
                if !out.contains(&map) {
                    out.push(map);
                }
            }
            Type::Tuple(fields) => fields.iter().for_each(|field| add(&field.ty, out)),
            Type::Array { element, .. } => add(element, out),
            _ => {}
        }
    }
    let mut out = Vec::new();
    for map in maps {
        if let Some(key) = &map.key {
            add(key, &mut out);
        }
        if let MapValue::Plain(ty) = &map.value {
            add(ty, &mut out);
        }
    }
    for argument in records.iter().flat_map(|record| &record.arguments) {
        add(&argument.ty, &mut out);
    }
    out
}

/// A name the kernel accepts in front, unique by its number.
fn program_name(probe: &str, index: usize) -> String {
    let clean: String =
        probe.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(100).collect();
    format!("{clean}_{}", index + 1)
}
