//! Single calls as models have made them in kind, each in a file where a careless reading of it would do harm: indentation,
//! escapes, typography.

use crate::{Cases, No, either, is};

const PY: &str = "class Cart:\n    def total(self):\n        if not self.items:\n            return 0\n        return sum(i.price for i in self.items)\n\n    def count(self):\n        if not self.items:\n            return 0\n        return len(self.items)\n\n\ndef total(cart):\n    if not cart.items:\n        return 0\n    return cart.total()\n";

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn indentation(cases: &mut Cases) {
    let body = "if not self.items:\n    return 0\nreturn len(self.items)";
    cases.edit(
        "a body without its indentation",
        PY,
        body,
        "return len(self.items or ())",
        is(&PY.replace(
            "        if not self.items:\n            return 0\n        return len(self.items)",
            "        return len(self.items or ())",
        )),
    );
    cases.edit(
        "a body in two places, without its indentation",
        PY,
        "if not self.items:\n    return 0",
        "pass",
        No("2 places"),
    );
    cases.edit(
        "a line of three places, told apart by its indentation alone",
        PY,
        "    if not cart.items:\n        return 0\n    return",
        "    if cart is None:\n        return 0\n    return",
        is(&PY.replace("    if not cart.items:", "    if cart is None:")),
    );
    cases.edit(
        "a method as a function, and there is a function",
        PY,
        "def total(self):\n    if not self.items:\n        return 0",
        "def total(self):\n    if self.empty():\n        return 0",
        is(&PY.replacen("if not self.items:", "if self.empty():", 1)),
    );
    cases.edit(
        "a function as a method, and there is a method",
        PY,
        "    def total(cart):\n        if not cart.items:\n            return 0\n        return cart.total()",
        "    def total(cart):\n        return cart.total()",
        is(&PY.replace(
            "    if not cart.items:\n        return 0\n    return cart.total()",
            "    return cart.total()",
        )),
    );
    cases.edit(
        "an else that is added one level out",
        PY,
        "if not cart.items:\n    return 0\nreturn cart.total()",
        "if not cart.items:\n    return 0\nelse:\n    return cart.total()",
        is(&PY.replace(
            "        return 0\n    return cart.total()",
            "        return 0\n    else:\n        return cart.total()",
        )),
    );
    cases.edit(
        "three blanks for four",
        PY,
        "   if not cart.items:\n      return 0",
        "   if cart.none():\n      return 0",
        either(&PY.replace("if not cart.items:", "if cart.none():"), "|"),
    );
    let make = "out: in\n\tcp in out\n\tchmod 644 out\n\nclean:\n\trm -f out\n";
    cases.edit(
        "a rule with blanks, a line more",
        make,
        "out: in\n    cp in out\n",
        "out: in\n    mkdir -p d\n    cp in out\n",
        is(&make.replace("\tcp", "\tmkdir -p d\n\tcp")),
    );
    cases.edit(
        "a recipe without its tab",
        make,
        "rm -f out",
        "rm -f out tmp",
        is(&make.replace("rm -f out", "rm -f out tmp")),
    );
    cases.edit(
        "a recipe with eight blanks",
        make,
        "        chmod 644 out\n",
        "        chmod 755 out\n        touch out\n",
        is(&make.replace("chmod 644 out", "chmod 755 out\n\ttouch out")),
    );
    let yaml = "on:\n  push:\n    branches: [main]\njobs:\n  a:\n    steps:\n    - run: x\n    - run: y\n  b:\n    steps:\n      - run: x\n      - run: z\n";
    cases.edit(
        "a list that hangs, a list that does not",
        yaml,
        "- run: x\n- run: y",
        "- run: x\n- run: w\n- run: y",
        is(&yaml.replace("    - run: y", "    - run: w\n    - run: y")),
    );
    cases.edit("a step of two lists", yaml, "- run: x", "- run: q", No("2 places"));
    cases.edit(
        "a key one level out",
        yaml,
        "push:\n  branches: [main]",
        "push:\n  branches: [main]\npull_request:\n  branches: [main]",
        is(&yaml.replace(
            "    branches: [main]\n",
            "    branches: [main]\n  pull_request:\n    branches: [main]\n",
        )),
    );
    let mixed = "int a() {\n\treturn 1;\n}\nint b() {\n    return 2;\n}\nint c() {\n  return 3;\n}\n";
    cases.edit(
        "tabs in a file of three habits",
        mixed,
        "int b() {\n\treturn 2;\n}",
        "int b() {\n\tlog();\n\treturn 2;\n}",
        is(&mixed.replace("    return 2;", "    log();\n    return 2;")),
    );
    cases.edit(
        "blanks in a file of three habits",
        mixed,
        "int a() {\n    return 1;\n}",
        "int a() {\n    log();\n    return 1;\n}",
        is(&mixed.replace("\treturn 1;", "\tlog();\n\treturn 1;")),
    );
    cases.edit(
        "four for two blanks",
        mixed,
        "int c() {\n    return 3;\n}",
        "int c() {\n    if (x)\n        return 4;\n    return 3;\n}",
        either(&mixed.replace("  return 3;", "  if (x)\n    return 4;\n  return 3;"), "|"),
    );
    let text = "def usage():\n    print(\"\"\"\\\nuse:\n  a  first\n  b  second\n\"\"\")\n";
    cases.edit(
        "a text whose blanks are its own",
        text,
        "  a  first\n  b  second\n",
        "  a  first\n  c  third\n  b  second\n",
        is(&text.replace("  b  second", "  c  third\n  b  second")),
    );
    cases.edit(
        "the same, indented by the model",
        text,
        "    print(\"\"\"\\\n    use:\n      a  first",
        "    print(\"\"\"\\\n    use:\n      a  1st",
        either(&text.replace("a  first", "a  1st"), "|"),
    );
    let deep = "a {\n  b {\n    c {\n      d: 1\n    }\n  }\n}\n";
    cases.edit(
        "closing brackets that are everywhere",
        deep,
        "}\n}\n}",
        "}\n}\n}\nx {}",
        either(&format!("{deep}x {{}}\n"), "|"),
    );
    cases.edit(
        "a level more around it",
        deep,
        "c {\n  d: 1\n}",
        "x {\n  c {\n    d: 1\n  }\n}",
        is("a {\n  b {\n    x {\n      c {\n        d: 1\n      }\n    }\n  }\n}\n"),
    );
    cases.edit(
        "a level less",
        deep,
        "  b {\n    c {\n      d: 1\n    }\n  }",
        "  c {\n    d: 1\n  }",
        is("a {\n  c {\n    d: 1\n  }\n}\n"),
    );
    cases.edit(
        "the first line without its blanks, the rest with",
        deep,
        "c {\n      d: 1\n    }",
        "c {\n      d: 2\n    }",
        is(&deep.replace("d: 1", "d: 2")),
    );
    cases.edit(
        "the first line without its blanks, a line more before it",
        deep,
        "c {\n      d: 1\n    }",
        "e {}\n    c {\n      d: 1\n    }",
        is(&deep.replace("    c {", "    e {}\n    c {")),
    );
    cases.edit(
        "blanks at the end of old alone",
        deep,
        "      d: 1   ",
        "      d: 2",
        is(&deep.replace("d: 1", "d: 2")),
    );
    cases.edit("a blank line with blanks", "a\n\nb\n", "a\n    \nb", "a\n    \nc", either("a\n\nc\n", "|"));
    cases.edit("blank lines with blanks in the file", "a\n    \nb\n", "a\n\nb", "a\n\nc", is("a\n    \nc\n"));
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn escapes(cases: &mut Cases) {
    let r = "let re = Regex::new(r\"^\\d{3}-\\w+\\.txt$\")?;\nlet p = \"C:\\\\dir\\\\new\";\nlet n = \"a\\nb\";\n";
    cases.edit(
        "a raw string, escaped",
        r,
        "let re = Regex::new(r\\\"^\\\\d{3}-\\\\w+\\\\.txt$\\\")?;",
        "let re = Regex::new(r\\\"^\\\\d+$\\\")?;",
        either(&r.replace("^\\d{3}-\\w+\\.txt$", "^\\d+$"), "|"),
    );
    cases.edit("a path, escaped once too little", r, "\"C:\\dir\\new\"", "\"D:\\dir\\new\"", No("not found"));
    cases.edit(
        "a path, escaped once too much",
        r,
        "\"C:\\\\\\\\dir\\\\\\\\new\"",
        "\"D:\\\\\\\\dir\\\\\\\\new\"",
        either(&r.replace("C:", "D:"), "|"),
    );
    cases.edit(
        "a newline that is meant, next to one that is not",
        r,
        "let n = \"a\\nb\";\\n",
        "let n = \"a\\nc\";\\n",
        either(&r.replace("a\\nb", "a\\nc"), "|"),
    );
    cases.edit(
        "new has a meant escape, old has none",
        "x = 1\ny = 2\n",
        "x = 1\\ny = 2",
        "x = \"a\\nb\"",
        either("x = \"a\nb\"\n", "|"),
    );
    let js = "const s = `a ${b} \\`c\\``;\nconst t = 'it\\'s';\n";
    cases.edit(
        "a template, its own escapes",
        js,
        "`a ${b} \\`c\\``",
        "`a ${b} \\`d\\``",
        is(&js.replace("\\`c\\`", "\\`d\\`")),
    );
    cases.edit(
        "a template, the dollar escaped",
        js,
        "`a \\${b} \\`c\\``",
        "`z \\${b} \\`c\\``",
        either(&js.replace("`a ", "`z "), "|"),
    );
    cases.edit("an apostrophe, escaped no more", js, "'it's'", "'its'", No("not found"));
    cases.edit(
        "an apostrophe, escaped as in the file",
        js,
        "'it\\'s'",
        "'it\\'ll'",
        is(&js.replace("it\\'s", "it\\'ll")),
    );
    let tex = "\\begin{a}\n\\textbf{x} \\& \\emph{y}\n\\nu + \\theta = \\tau\n\\end{a}\n";
    cases.edit(
        "LaTeX, doubled backslashes",
        tex,
        "\\\\textbf{x} \\\\& \\\\emph{y}",
        "\\\\textbf{x}",
        is(&tex.replace(" \\& \\emph{y}", "")),
    );
    cases.edit(
        "LaTeX whose commands begin as escapes",
        tex,
        "\\nu + \\theta = \\tau",
        "\\nu = \\tau",
        is(&tex.replace("\\nu + \\theta = \\tau", "\\nu = \\tau")),
    );
    cases.edit("LaTeX, \\n of \\nu taken for a newline", tex, "\nu + \theta", "\nu", No("|"));
    let sh = "printf '%s\\n' \"$a\"\nsed -e 's/\\t/ /g' -e \"s/\\\\$//\"\n";
    cases.edit(
        "printf as it is",
        sh,
        "printf '%s\\n' \"$a\"",
        "printf '%s\\0' \"$a\"",
        is(&sh.replace("%s\\n", "%s\\0")),
    );
    cases.edit(
        "printf, everything escaped",
        sh,
        "printf '%s\\\\n' \\\"$a\\\"",
        "printf '%s\\\\n' \\\"$b\\\"",
        is(&sh.replace("$a", "$b")),
    );
    cases.edit("sed as it is", sh, "'s/\\t/ /g'", "'s/\\t/  /g'", is(&sh.replace("/ /g", "/  /g")));
    cases.edit("a tab as \\t where the file has a tab", "a\tb\nc\n", "a\\tb", "a\\td", is("a\td\nc\n"));
    cases.edit(
        "a tab where the file has \\t",
        "f(\"a\\tb\")\n",
        "f(\"a\tb\")",
        "g(\"a\tb\")",
        either("g(\"a\\tb\")\n", "not found"),
    );
    let json_text = "{\n  \"cmd\": \"echo \\\"hi\\\" \\u00e9\",\n  \"n\": 1\n}\n";
    cases.edit(
        "JSON, its escapes kept",
        json_text,
        "\"echo \\\"hi\\\" \\u00e9\"",
        "\"echo \\\"ho\\\" \\u00e9\"",
        is(&json_text.replace("hi", "ho")),
    );
    cases.edit(
        "JSON, a letter for its escape",
        json_text,
        "\"echo \\\"hi\\\" é\"",
        "\"echo x é\"",
        No("not found"),
    );
    cases.edit(
        "a letter as \\u00e9 where the file has it",
        "name: café\n",
        "name: caf\\u00e9",
        "name: th\\u00e9",
        either("name: thé\n", "not found"),
    );
    cases.edit(
        "quotes escaped in old alone",
        "say(\"a\")\n",
        "say(\\\"a\\\")",
        "say(\"b\")",
        is("say(\"b\")\n"),
    );
    cases.edit(
        "quotes escaped in new alone",
        "say(\"a\")\n",
        "say(\"a\")",
        "say(\\\"b\\\")",
        is("say(\\\"b\\\")\n"),
    );
    cases.edit(
        "entities in old alone",
        "if a < b && c:\n",
        "if a &lt; b &amp;&amp; c:",
        "if a < c:",
        is("if a < c:\n"),
    );
    cases.edit(
        "entities in a page that has both",
        "<p>a &lt; b</p>\n<p>a < b</p>\n",
        "<p>a &lt; b</p>",
        "<p>a &lt; c</p>",
        is("<p>a &lt; c</p>\n<p>a < b</p>\n"),
    );
    cases.edit(
        "CDATA around it",
        "let a = b < c;\n",
        "<![CDATA[let a = b < c;]]>",
        "<![CDATA[let a = b > c;]]>",
        either("let a = b > c;\n", "not found"),
    );
    cases.edit(
        "a colour of a terminal",
        "puts \"\\e[31mred\\e[0m\"\n",
        "\\e[31mred",
        "\\e[32mgreen",
        is("puts \"\\e[32mgreen\\e[0m\"\n"),
    );
    cases.edit(
        "percent signs of an address",
        "url = \"/a b?c\"\n",
        "url = \"/a%20b?c\"",
        "url = \"/d\"",
        No("not found"),
    );
}

pub(super) fn typography(cases: &mut Cases) {
    let md = "It’s the “new” way — not the old one…\nIt's the \"old\" way - 5 − 3 = 2.\n";
    cases.edit(
        "straight quotes, and there is such a line",
        md,
        "It's the \"old\" way - 5",
        "It's the \"best\" way - 5",
        is(&md.replace("\"old\"", "\"best\"")),
    );
    cases.edit(
        "straight quotes, the other line is meant",
        md,
        "It's the \"new\" way - not the old one...",
        "It's the \"new\" way - not the older one...",
        either(&md.replace("old one", "older one"), "|"),
    );
    cases.edit(
        "a quote that fits both lines",
        md,
        "It's the ",
        "Its the ",
        is(&md.replace("It's the ", "Its the ")),
    );
    cases.edit("a minus that is none", md, "5 - 3 = 2", "5 - 3 = 3", either(&md.replace("= 2", "= 3"), "|"));
    cases.edit("quotes for quotes: nothing changes", "a = “b”\n", "a = \"b\"", "a = \"b\"", No("same"));
    cases.edit("quotes are what changes", "a = “b”\n", "a = “b”", "a = \"b\"", is("a = \"b\"\n"));
    cases.edit("dashes are what changes", "a – b\n", "a – b", "a — b", is("a — b\n"));
    let code = "msg = 'don’t'\nother = \"don't\"\n";
    cases.edit(
        "a curly apostrophe inside straight quotes",
        code,
        "msg = 'don't'",
        "msg = 'do not'",
        either(&code.replace("don’t", "do not"), "|"),
    );
    cases.edit(
        "curly quotes as delimiters in old and new",
        code,
        "other = “don't”",
        "other = “do not”",
        either(&code.replace("\"don't\"", "\"do not\""), "|"),
    );
    cases.edit(
        "French quotes",
        "dit « oui »\n",
        "dit \"oui\"",
        "dit \"non\"",
        either("dit « non »\n", "not found"),
    );
    cases.edit(
        "a narrow no-break blank",
        "10\u{202f}000 €\n",
        "10 000 €",
        "20 000 €",
        either("20\u{202f}000 €\n", "not found"),
    );
    cases.edit(
        "a soft hyphen",
        "Donau\u{ad}dampf\nx\n",
        "Donaudampf",
        "Rheindampf",
        either("Rheindampf\nx\n", "not found"),
    );
    cases.edit("a zero-width joiner that matters", "👩‍💻 a\n", "👩‍💻 a", "👩‍💻 b", is("👩‍💻 b\n"));
    cases.edit(
        "a word of look-alike letters",
        "const сache = 1;\nconst cache = 2;\n",
        "const cache = ",
        "const store = ",
        is("const сache = 1;\nconst store = 2;\n"),
    );
    cases.edit("ligatures", "of\u{fb01}ce\n", "office", "desk", either("desk\n", "not found"));
    cases.edit("a dotless i in capitals", "TITLE İ\n", "TITLE i", "x", No("not found"));
    cases.edit(
        "an ellipsis of one letter in code",
        "f(a, ...b)\n",
        "f(a, …b)",
        "f(…b)",
        either("f(...b)\n", "|"),
    );
    cases.edit("arrows", "a => b\nc → d\n", "a → b", "a → e", No("not found"));
    cases.edit("a mark of direction in old", "abc\n", "\u{200e}abc", "abd", either("abd\n", "not found"));
    cases.edit(
        "decomposed in old and new, composed in the file",
        "ä = 1\nö = 2\n",
        "a\u{308} = 1",
        "a\u{308} = 3",
        either("ä = 3\nö = 2\n", "|"),
    );
}
