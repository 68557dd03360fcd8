#!/usr/bin/env python3
"""Writes a Rust program that uses the public API of the `mongodb` crate as its signatures allow.

Input: the rustdoc JSON of the crate, and the list of accepted differences. Output: functions, on the
standard output, which the test `official_api` of the driver compiles against Steadfast. See main.rs.
"""

import json
import re
import sys

data = json.load(open(sys.argv[1]))
skipped = {
    line.split("|")[0].strip()
    for line in open(sys.argv[2])
    if line.strip() and not line.startswith("#")
}
used_skips = set()
index = data["index"]
paths = {}
EXTERNAL = {
    "Bson": "bson::Bson", "Document": "bson::Document", "Timestamp": "bson::Timestamp",
    "DateTime": "bson::DateTime", "ObjectId": "bson::oid::ObjectId", "Binary": "bson::Binary",
    "RawDocumentBuf": "bson::RawDocumentBuf", "RawDocument": "bson::RawDocument",
    "RawArray": "bson::RawArray", "RawArrayBuf": "bson::RawArrayBuf",
    "UuidRepresentation": "bson::UuidRepresentation", "RawBson": "bson::RawBson",
    "Array": "bson::Array",
    "Duration": "std::time::Duration", "Arc": "std::sync::Arc", "PathBuf": "std::path::PathBuf",
    "HashMap": "std::collections::HashMap", "HashSet": "std::collections::HashSet",
    "Pin": "std::pin::Pin", "Infallible": "std::convert::Infallible",
    "Sender": "tokio::sync::mpsc::Sender", "BoxFuture": "mongodb::BoxFuture",
    "io::Error": "std::io::Error", "std::io::Error": "std::io::Error",
    "Option": "Option", "Vec": "Vec", "String": "String", "Box": "Box",
    "std::result::Result": "std::result::Result",
}
MARKERS = {
    "Clone": "Clone", "Copy": "Copy", "Debug": "std::fmt::Debug", "Default": "Default",
    "PartialEq": "PartialEq", "Eq": "Eq", "PartialOrd": "PartialOrd", "Ord": "Ord",
    "Hash": "std::hash::Hash", "Display": "std::fmt::Display", "Error": "std::error::Error",
    "Serialize": "serde::Serialize", "Deserialize": "for<'de> serde::Deserialize<'de>",
    "FromStr": "std::str::FromStr", "Send": "Send", "Sync": "Sync", "Unpin": "Unpin",
    "Stream": "futures_core::Stream", "AsyncRead": "futures_io::AsyncRead",
    "AsyncWrite": "futures_io::AsyncWrite", "IntoFuture": "IntoFuture",
}


class Unsupported(Exception):
    """A signature that this program cannot express."""


def item(id):
    return index.get(str(id))


def kind(it):
    return next(iter(it["inner"]))


def walk(module, prefix, seen):
    """Records the shortest public path of each item."""
    for id in module["items"]:
        it = item(id)
        if it is None or it["visibility"] != "public":
            continue
        if kind(it) == "use":
            use = it["inner"]["use"]
            target = item(use["id"]) if use["id"] is not None else None
            if target is None:
                continue
            if use["is_glob"]:
                if kind(target) == "module":
                    walk(target["inner"]["module"], prefix, seen)
            else:
                record(target, prefix + [use["name"]], seen)
        else:
            record(it, prefix + [it["name"]], seen)


def record(it, path, seen):
    known = paths.get(it["id"])
    if known is None or len(path) < len(known):
        paths[it["id"]] = path
    if kind(it) == "module" and (it["id"], tuple(path)) not in seen:
        seen.add((it["id"], tuple(path)))
        walk(it["inner"]["module"], path, seen)


walk(item(data["root"])["inner"]["module"], [], set())


def args(given, env, trait=False):
    if not given or "angle_bracketed" not in given:
        return ""
    shown = []
    for one in given["angle_bracketed"]["args"]:
        if "type" in one:
            shown.append(render(one["type"], env))
        elif "lifetime" in one:
            shown.append("'static" if one["lifetime"] == "'static" or env.get("'") else "'_")
        else:
            raise Unsupported("constant argument")
    return "<" + ", ".join(shown) + ">" if shown else ""


def render(ty, env):
    """Returns the text of a type. `env` maps type parameters to types."""
    (what, value), = ty.items()
    if what == "resolved_path":
        inner = args(value["args"], env)
        if value["path"].split("::")[-1] == "Instant":
            return "std::time::Instant"
        if value["id"] in paths:
            return "mongodb::" + "::".join(paths[value["id"]]) + inner
        name = value["path"]
        if name in EXTERNAL:
            return EXTERNAL[name] + inner
        last = name.split("::")[-1]
        if last == "Result" and inner.count(",") == 0:
            return "mongodb::error::Result" + inner
        if last in EXTERNAL and last not in ("Error",):
            return EXTERNAL[last] + inner
        if name.startswith("bson::") or "::bson::" in name:
            return "bson::" + name.split("bson::")[-1] + inner
        raise Unsupported("type " + name)
    if what == "primitive":
        return "()" if value == "unit" else "!" if value == "never" else value
    if what == "generic":
        if value in env:
            return env[value]
        raise Unsupported("type parameter " + value)
    if what == "borrowed_ref":
        life = "'static " if value["lifetime"] == "'static" or env.get("'") else ""
        return "&" + life + ("mut " if value["is_mutable"] else "") + render(value["type"], env)
    if what == "tuple":
        inner = [render(one, env) for one in value]
        return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
    if what == "slice":
        return "[" + render(value, env) + "]"
    if what == "array":
        return "[" + render(value["type"], env) + "; " + value["len"] + "]"
    raise Unsupported(what)


def bound(bounds):
    for one in bounds:
        if "trait_bound" in one:
            trait = one["trait_bound"]["trait"]
            name = trait["path"].split("::")[-1]
            if name not in ("Send", "Sync", "Unpin", "Sized", "Debug", "Any", "DeserializeOwned", "Serialize"):
                return name, trait["args"]
    for one in bounds:
        if "trait_bound" in one and one["trait_bound"]["trait"]["path"].split("::")[-1] == "Any":
            return "Any", None
    return "Document", None


def representative(bounds, env):
    """Returns a type that satisfies the bounds of a parameter."""
    name, given = bound(bounds)
    if name == "Document":
        return "bson::Document"
    if name == "Any":
        return "String"
    parts = (given or {}).get("angle_bracketed", {"args": [], "constraints": []})
    if name in ("Into", "Borrow", "AsRef"):
        inner = render(parts["args"][0]["type"], dict(env, **{"'": True}))
        return {"str": "&'static str", "[u8]": "Vec<u8>", "Path": "&'static str"}.get(inner, inner)
    if name == "IntoIterator":
        of = parts["constraints"][0]["binding"]["equality"]["type"]
        if "impl_trait" in of:
            return "Vec<" + representative(of["impl_trait"], env) + ">"
        return "Vec<" + render(of, env) + ">"
    if name == "TryInto":
        return "&'static str"
    if name == "AsyncRead" or name == "AsyncWrite":
        raise Unsupported(name)
    raise Unsupported("bound " + name)


def generics_env(generics, env):
    """Returns representative types for type parameters, from their bounds."""
    bounds = {}
    for param in generics["params"]:
        if "type" in param["kind"] and not param["kind"]["type"].get("is_synthetic"):
            bounds[param["name"]] = list(param["kind"]["type"]["bounds"])
    for where in generics["where_predicates"]:
        pred = where.get("bound_predicate")
        if pred and "generic" in pred["type"] and pred["type"]["generic"] in bounds:
            bounds[pred["type"]["generic"]] += pred["bounds"]
    out = dict(env)
    for name, given in bounds.items():
        out[name] = representative(given, out)
    return out, list(bounds)


lines = []
count = 0


def check(name, code):
    """Adds a check, unless the difference is accepted."""
    global count
    if name in skipped:
        used_skips.add(name)
        return
    parts = name.split("::")
    for end in range(1, len(parts)):
        prefix = "::".join(parts[:end])
        if prefix in skipped:
            used_skips.add(prefix)
            return
    # A setter or a trait that is missing from all types, such as `*::run()`.
    if "*::" + parts[-1] in skipped:
        used_skips.add("*::" + parts[-1])
        return
    trait = parts[-1].split(" ")[0]
    if "*::" + trait in skipped:
        used_skips.add("*::" + trait)
        return
    count += 1
    lines.append(f"// {name}")
    lines.append(f"fn _{count}{code}")


def function(name, it, self_type, env):
    sig = it["inner"]["function"]
    try:
        env, explicit = generics_env(sig["generics"], env)
        env["Self"] = self_type
        params, call = [], []
        receiver = None
        for pname, ty in sig["sig"]["inputs"]:
            if pname == "self":
                receiver = render(ty, env)
                continue
            if "impl_trait" in ty:
                shown = representative(ty["impl_trait"], env)
            else:
                shown = render(ty, env)
            call.append(shown)
        output = sig["sig"]["output"]
        if output is None:
            result = "()"
        elif "impl_trait" in output:
            result = "_"
        else:
            result = render(output, env)
    except Unsupported as why:
        print(f"not checked: {name}: {why}", file=sys.stderr)
        return
    turbofish = ""
    synthetic = any(
        "type" in p["kind"] and p["kind"]["type"].get("is_synthetic")
        for p in sig["generics"]["params"]
    )
    if explicit and not any("impl_trait" in ty for _, ty in sig["sig"]["inputs"]):
        turbofish = ""
        if not any("generic" in str(ty) for _, ty in sig["sig"]["inputs"] if _ != "self"):
            turbofish = "::<" + ", ".join(env[p] for p in explicit) + ">"
    arguments = ", ".join(f"arg::<{one}>()" for one in call)
    method = it["name"]
    wait = ".await" if sig["header"]["is_async"] else ""
    begin = "async fn" if False else ""
    if receiver is not None:
        expression = f"this.{method}{turbofish}({arguments}){wait}"
        header = f"(this: {receiver})"
    else:
        target = f"<{self_type}>::{method}" if self_type else "mongodb::" + name[:-2]
        expression = f"{target}{turbofish}({arguments}){wait}"
        header = "()"
    if wait:
        check(name, f"{header} {{ drop(async move {{ let _: {result} = {expression}; }}); }}")
    else:
        check(name, f"{header} {{ let _: {result} = {expression}; }}")


def type_env(generics):
    env, shown = {}, []
    for param in generics["params"]:
        if "lifetime" in param["kind"]:
            shown.append("'_")
        elif "type" in param["kind"]:
            default = param["kind"]["type"]["default"]
            if default and "generic" not in default:
                try:
                    env[param["name"]] = render(default, env)
                except Unsupported:
                    env[param["name"]] = "bson::Document"
            else:
                env[param["name"]] = "bson::Document"
            shown.append(env[param["name"]])
    return env, "<" + ", ".join(shown) + ">" if shown else ""


# Types for parameters without a bound or default that would determine them.
OVERRIDES = {"StartTransaction": "&'static mut mongodb::ClientSession"}


def impl_target(impl, name, declared):
    """Returns the type of an impl and the types of its parameters: those of the declaration."""
    env = {}
    for param in impl["generics"]["params"]:
        if "type" in param["kind"]:
            env[param["name"]] = OVERRIDES.get(name.split("::")[-1], "bson::Document")
    given = impl["for"].get("resolved_path", {}).get("args") or {}
    given = given.get("angle_bracketed", {"args": []})["args"]
    for param, one in zip(declared["params"], given):
        if "type" in one and "generic" in one["type"] and "type" in param["kind"]:
            default = param["kind"]["type"]["default"]
            if default:
                env[one["type"]["generic"]] = render(default, {})
    return render(impl["for"], env), env


def is_exhaustive(it):
    return "non_exhaustive" not in json.dumps(it["attrs"])


def fields_of(name, shown, ids):
    for id in ids:
        field = item(id)
        if field is None or field["visibility"] not in ("public", "default"):
            continue
        try:
            ty = render(field["inner"]["struct_field"], {})
        except Unsupported as why:
            print(f"not checked: {name}::{field['name']}: {why}", file=sys.stderr)
            continue
        check(f"{name}::{field['name']}", f"(this: &{shown}) {{ let _: &{ty} = &this.{field['name']}; }}")


def builder_of(name, shown, it):
    """Checks the setters of a builder. They accept the type of the field."""
    check(f"{name}::builder()", f"() {{ let _ = <{shown}>::builder(); }}")
    for id in it["inner"]["struct"]["kind"]["plain"]["fields"]:
        field = item(id)
        if field is None or field["visibility"] != "public":
            continue
        try:
            ty = render(field["inner"]["struct_field"], {})
        except Unsupported as why:
            print(f"not checked: {name}::builder().{field['name']}: {why}", file=sys.stderr)
            continue
        setter = field["name"]
        check(f"{name}::builder().{setter}()", f"() {{ let _ = <{shown}>::builder().{setter}(arg::<{ty}>()); }}")


for id, path in sorted(paths.items(), key=lambda pair: pair[1]):
    it = item(id)
    name = "::".join(path)
    what = kind(it)
    if what in ("struct", "enum", "union"):
        body = it["inner"][what]
        env, params = type_env(body["generics"])
        shown = f"mongodb::{name}{params}"
        check(name, f"(_: &{shown}) {{}}")
        if what == "struct" and "plain" in body["kind"]:
            fields_of(name, shown, body["kind"]["plain"]["fields"])
        if what == "enum":
            patterns = []
            for variant_id in body["variants"]:
                variant = item(variant_id)
                vname = f"{name}::{variant['name']}"
                vpath = f"mongodb::{vname}"
                patterns.append(f"{vpath} {{ .. }} => {{}}")
                form = variant["inner"]["variant"]["kind"]
                code = f"(this: {shown}) {{ if let {vpath} {{ .. }} = this {{}} }}"
                try:
                    if isinstance(form, dict) and "tuple" in form and len(form["tuple"]) == 1:
                        ty = render(item(form["tuple"][0])["inner"]["struct_field"], env)
                        code = f"(this: {shown}) {{ if let {vpath}(it) = this {{ let _: {ty} = it; }} }}"
                    elif isinstance(form, dict) and "struct" in form:
                        for field_id in form["struct"]["fields"]:
                            field = item(field_id)
                            ty = render(field["inner"]["struct_field"], env)
                            check(
                                f"{vname}::{field['name']}",
                                f"(this: {shown}) {{ if let {vpath} {{ {field['name']}: it, .. }} = this {{ let _: {ty} = it; }} }}",
                            )
                except Unsupported as why:
                    print(f"not checked: {vname}: {why}", file=sys.stderr)
                check(vname, code)
            if is_exhaustive(it):
                check(name + " exhaustive", f"(this: {shown}) {{ match this {{ {', '.join(patterns)} }} }}")
        for impl_id in body["impls"]:
            found = item(impl_id)
            if found is None:
                continue
            impl = found["inner"]["impl"]
            if impl["is_negative"] or impl["blanket_impl"]:
                continue
            try:
                target, impl_env = impl_target(impl, name, body["generics"])
            except Unsupported as why:
                print(f"not checked: impl of {name}: {why}", file=sys.stderr)
                continue
            if impl["trait"] is None:
                for method_id in impl["items"]:
                    method = item(method_id)
                    if method and method["visibility"] == "public" and kind(method) == "function":
                        if method["name"] == "builder":
                            builder_of(name, shown, it)
                            continue
                        function(f"{name}::{method['name']}()", method, target, impl_env)
                continue
            trait = impl["trait"]["path"].split("::")[-1]
            if trait in MARKERS:
                check(f"{name}::{trait}", f"() {{ fn check<T: {MARKERS[trait]}>() {{}} check::<{target}>(); }}")
            elif trait in ("From", "TryFrom"):
                try:
                    source = args(impl["trait"]["args"], dict(impl_env, **{"'": True}))
                    if "Arc<bson::Document>" in source or source == "<bson::Document>":
                        continue
                except Unsupported as why:
                    print(f"not checked: {trait} of {name}: {why}", file=sys.stderr)
                    continue
                check(f"{name}::{trait} {source}", f"() {{ fn check<T: {trait}{source}>() {{}} check::<{target}>(); }}")
    elif what == "trait":
        check(name, "() { #[allow(unused_imports)] use mongodb::" + name + " as _; }")
    elif what == "type_alias":
        check(name, "() { #[allow(unused_imports)] use mongodb::" + name + " as _Alias; }")
    elif what == "constant":
        check(name, f"() {{ let _ = mongodb::{name}; }}")
    elif what == "function":
        function(name + "()", it, None, {})

print(f"// Generated by tests/official_api/generate.py from mongodb {data['crate_version']}: {count} checks.")
print("\n".join(lines))
for unused in sorted(skipped - used_skips):
    print(f"accepted difference without an item: {unused}", file=sys.stderr)
