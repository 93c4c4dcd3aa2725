use super::*;
use crate::Unit;

fn flame(text: &str, before: Option<&str>) -> Flame {
    Flame {
        id: "f".into(),
        title: "Where <b>time</b> & money went".into(),
        about: Some("Sampled 99 times a second.".into()),
        unit: Unit::Count,
        counted: "samples".into(),
        stacks: Flame::parse_folded(text).0,
        before: before.map(|text| Flame::parse_folded(text).0),
    }
}

/// Elements of a picture by start tag; fails where tags do not nest or text is not escaped.
fn well_formed(svg: &str) -> usize {
    let script = svg.find("<script><![CDATA[").unwrap();
    let end = svg.rfind("]]></script>").unwrap();
    assert_eq!(svg[script + 17..].find("]]>"), Some(end - script - 17), "the script ends its own section");
    let (mut open, mut elements) = (Vec::new(), 0);
    let text = format!("{}{}", &svg[..script], &svg[end + "]]></script>".len()..]);
    for part in text.split('<').skip(1) {
        let (tag, after) = part.split_once('>').expect("a tag that ends");
        for reference in after.split('&').skip(1) {
            assert!(reference.split_once(';').is_some_and(|(name, _)| name.len() < 7), "bare & in {after}");
        }
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name.to_owned())),
            None => {
                elements += 1;
                if !tag.ends_with('/') {
                    open.push(tag.split(' ').next().unwrap().to_owned());
                }
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    elements
}

#[test]
fn a_picture_has_titles_and_asks_for_nothing() {
    let svg = svg(&flame("main;work;vfs_read_[k] 30\nmain;idle 10\n", None));
    assert!(well_formed(&svg) > 10);
    assert!(svg.contains("<title>vfs_read: 30 samples (75.0 %)</title>"), "{svg}");
    assert!(svg.contains("Where &lt;b&gt;time&lt;/b&gt; &amp; money went"));
    let outside = ["http://", "https://", "href", "url(", "@import", "import("];
    let namespaces = ["http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"];
    let without = namespaces.iter().fold(svg.clone(), |text, name| text.replace(name, ""));
    for word in outside {
        assert!(!without.contains(word), "{word}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let names = "</title><script>alert(1)</script>;]]>;a\"b'c&d;\u{1}\u{202e} 5\n";
    let svg = svg(&flame(names, Some("]]></script><b> 1\n")));
    well_formed(&svg);
    assert_eq!(svg.matches("<script").count(), 1);
}

#[test]
fn a_comparison_is_coloured_by_change_and_says_how() {
    let svg = svg(&flame("main;a 30\nmain;b_[k] 10\n", Some("main;a 1\nmain;b_[k] 2\nmain;gone 1\n")));
    well_formed(&svg);
    assert!(svg.contains("class=\"f m4\""), "{svg}");
    assert!(svg.contains("class=\"f l4 k\""));
    assert!(
        svg.contains(
            "<title>a: 30 samples (75.0 %), +50.00 points; in the first run 1 sample (25.0 %)</title>"
        ),
        "{svg}"
    );
    let words: String = svg.split("<text class=\"words\"").map(|text| format!("{text} ")).collect();
    assert!(words.contains("25.0 % of the first run is in stacks that the second has not"));
    assert!(words.contains("samples).") && words.contains("(first run: 4"), "{words}");
}

#[test]
fn nothing_counted_is_said() {
    let svg = svg(&flame("", None));
    well_formed(&svg);
    assert!(svg.contains("no stack was counted"));
}

#[test]
fn a_page_holds_every_graph() {
    let page = page("Two graphs", &[flame("a 1\n", None), flame("b 2\n", Some("b 1\n"))]);
    assert_eq!(page.matches("class=\"chart flame\"").count(), 2);
    assert!(page.contains("Content-Security-Policy"));
    assert!(!page.contains("cross-check") && !page.contains("id=\"trust\""));
}
