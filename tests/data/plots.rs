//! matplotlib: figures as results of cells, and as files.

use belljar::{CellValue, Sandbox, SandboxResult, Status};
use serde_json::json;
use support::{Cells, Expect, Jar};

const IMPORTS: &str = "import matplotlib.pyplot as plt, numpy as np, pandas as pd\n";

const ONE_FIGURE: &str = "<Figure size 640x480 with 1 Axes>";

/// What a cell has shown. It warned of nothing.
#[track_caller]
fn shown(result: &SandboxResult) -> &CellValue {
    result.ended(Status::Ok, 0);
    assert_eq!(result.stderr, "");
    result.result.as_ref().expect("a value")
}

/// What a cell with one figure has shown: it is there in both forms.
#[track_caller]
fn figure(result: &SandboxResult) -> &CellValue {
    let value = shown(result);
    assert!(value.mime["image/png"].starts_with("iVBOR"), "{:?}", value.mime.keys());
    assert!(value.mime["image/svg+xml"].contains("<svg"), "{:?}", value.mime.keys());
    value
}

/// Width and height of a PNG in base64: bytes 16 to 23.
#[track_caller]
fn size(png: &str) -> (u32, u32) {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = png.chars().take(32).map(|digit| DIGITS.find(digit).expect("base64"));
    let bits: String = bits.map(|digit| format!("{digit:06b}")).collect();
    let number = |from: usize| u32::from_str_radix(&bits[from * 8..(from + 4) * 8], 2);
    (number(16).expect("a width"), number(20).expect("a height"))
}

#[test]
fn every_kind_of_plot_is_drawn() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    session.run("x = np.linspace(0, 9, 50); r = np.random.default_rng(1)").kept(Status::Ok);
    for code in [
        "plt.plot(x, np.sin(x), 'r--', label='sine'); plt.legend(); plt.grid(True)",
        "plt.bar(['a', 'b'], [1, 2], yerr=[.1, .2]); plt.xticks(rotation=45)",
        "plt.barh(['a', 'b'], [1, 2], hatch='/')",
        "plt.hist(r.normal(size=500), bins=20)",
        "plt.scatter(x, x, c=x, s=20, cmap='plasma'); plt.colorbar()",
        "plt.boxplot([r.normal(size=50), r.normal(size=50)])",
        "plt.violinplot(r.normal(size=50))",
        "plt.pie([1, 2, 3], labels=list('abc'), autopct='%1.0f%%')",
        "plt.contour(*np.meshgrid(x, x), np.outer(x, np.sin(x)))",
        "plt.contourf(np.outer(x, np.sin(x))); plt.colorbar()",
        "plt.imshow(r.random((9, 9)), interpolation='bilinear')",
        "plt.pcolormesh(r.random((9, 9)))",
        "plt.tripcolor(r.random(20), r.random(20), np.arange(20.))",
        "plt.quiver(x, x, np.cos(x), np.sin(x))",
        "plt.streamplot(*np.meshgrid(x, x), np.ones((50, 50)), np.outer(x, x))",
        "plt.errorbar(x, x, yerr=.5, fmt='o')",
        "plt.fill_between(x, x, x + 1, alpha=.3); plt.yscale('log')",
        "plt.plot(pd.date_range('2024-01-01', periods=50), x); plt.gcf().autofmt_xdate()",
        "plt.subplot(projection='polar').plot(x, x)",
        "plt.figure().add_subplot(projection='3d').plot_surface(*np.meshgrid(x, x), np.outer(x, x))",
        "plt.subplots(2, 2, layout='constrained', sharex=True)",
        "plt.plot(x); plt.suptitle('tight'); plt.tight_layout()",
        "plt.table([[1, 2]], loc='center'); plt.axis('off')",
        "plt.plot(x).append(plt.gca().inset_axes([.5, .5, .4, .4]).plot(x))",
    ] {
        let result = session.run(code);
        assert_eq!(result.status(), Status::Ok, "{code}: {}", result.stderr);
        figure(&result);
    }
}

#[test]
fn a_figure_is_shown_with_show_or_without() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    for code in [
        "plt.plot([1, 2])\nplt.show()",
        "plt.plot([1, 2])\nplt.show()\nx = 1",
        "plt.plot([1, 2])\nplt.show(block=True)\nplt.close()",
        "plt.plot([1, 2])\nplt.show()\nplt.clf()",
        "plt.plot([1, 2])\nx = 1",
        "plt.plot([1, 2]); None",
        "plt.figure(); plt.plot([1, 2]); plt.gcf().show()",
        "import matplotlib; matplotlib.use('Agg'); plt.plot([1, 2]); plt.show()",
        "import asyncio\nawait asyncio.sleep(0)\nplt.plot([1, 2])\nplt.show()",
    ] {
        let result = session.run(code);
        assert_eq!(figure(&result).text, ONE_FIGURE, "{code}");
    }
    let result = session.run("print(plt.show())");
    assert_eq!((result.stdout.as_str(), &result.result), ("None\n", &None));
    let result = session.run("plt.plot([1, 2])");
    assert!(figure(&result).text.starts_with("[<matplotlib.lines.Line2D object at "));
}

#[test]
fn what_is_closed_or_empty_is_not_shown() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    for code in
        ["plt.plot([1]); plt.close()", "plt.figure(); x = 1", "fig = plt.figure(); plt.close(fig)"]
    {
        let result = session.run(code);
        result.kept(Status::Ok);
        assert_eq!(result.result, None, "{code}");
    }
    let result = session.run("plt.figure()");
    assert_eq!(shown(&result).text, "<Figure size 640x480 with 0 Axes>");
    assert!(shown(&result).mime.is_empty());
}

#[test]
fn several_figures_are_one_picture() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let one = session.run("plt.plot([1, 2]); plt.show()");
    let (width, height) = size(&figure(&one).mime["image/png"]);
    for code in [
        "plt.plot([1, 2]); plt.show(); plt.plot([1, 2]); plt.show()",
        "plt.plot([1, 2])\nplt.figure()\nplt.plot([1, 2])\nx = 1",
        "for _ in range(2): plt.subplots()[1].plot([1, 2])",
    ] {
        let result = session.run(code);
        let both = shown(&result);
        assert_eq!(both.text, format!("{ONE_FIGURE}\n{ONE_FIGURE}"), "{code}");
        assert_eq!(both.mime.keys().collect::<Vec<_>>(), ["image/png"], "{code}");
        assert_eq!(size(&both.mime["image/png"]), (width, 2 * height + 10), "{code}");
    }
    // More than twenty are not drawn, and many large ones are drawn smaller.
    let result = session.run("for _ in range(25): plt.figure().text(0, 0, 'x')\nplt.show()");
    let text = result.result.expect("a value").text;
    assert_eq!(text.lines().count(), 21);
    assert!(text.ends_with("\n<5 more, not drawn>"), "{text}");
    let result = session.run("for _ in range(8): plt.subplots(figsize=(16, 16))");
    let (width, height) = size(&shown(&result).mime["image/png"]);
    assert!((8_000_000..8_400_000).contains(&(width * height)), "{width} x {height}");
}

#[test]
fn a_value_and_a_figure_are_both_kept() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let result = session.run("frame = pd.DataFrame({'a': [1, 2]})\nframe.plot()\nframe");
    let value = figure(&result);
    assert!(value.mime["text/html"].contains("<table"), "{:?}", value.mime.keys());
    assert_eq!(value.text, "   a\n0  1\n1  2");
    let result = session.run("plt.plot([1, 2]); [3, 'four']");
    assert_eq!(figure(&result).json, Some(json!([3, "four"])));
}

#[test]
fn a_figure_is_shown_again_by_its_name() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let first = session.run("fig, ax = plt.subplots(); ax.plot([1, 2]); fig");
    assert_eq!(figure(&first).text, ONE_FIGURE);
    let again = session.run("fig");
    assert_eq!(figure(&again).mime["image/png"], figure(&first).mime["image/png"]);
    let changed = session.run("ax.set_title('later'); fig");
    assert_ne!(figure(&changed).mime["image/png"], figure(&first).mime["image/png"]);
    figure(&session.run("fig.show()"));
    // Shown or open, it is one figure; pyplot has forgotten it, and counts anew.
    figure(&session.run("fig2 = plt.figure(); plt.plot([1]); plt.show(); fig2"));
    session.run("plt.get_fignums()").gave(json!([]));
    session.run("plt.figure().number").gave(1);
    let mut fork = session.fork().expect("a fork");
    assert_eq!(figure(&fork.run("fig")).mime["image/png"], figure(&changed).mime["image/png"]);
    // Without pyplot.
    let code = "from matplotlib.figure import Figure\nf = Figure()\nf.subplots().plot([1, 2])\nf";
    assert_eq!(figure(&session.run(code)).text, ONE_FIGURE);
}

#[test]
fn an_error_while_drawing_is_the_cells_and_leaves_nothing() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let message = "\n\\frac{\n     ^\n\
                   ParseSyntaxException: Expected \\frac{num}{den}, found '{'  (at char 5), (line:1, col:6)";
    for end in ["", "; plt.show()", "; fig = plt.gcf(); plt.close(); fig"] {
        let result = session.run(&format!("plt.title('$\\\\frac{{$'){end}"));
        result.raised("ValueError", message).kept(Status::Error);
        assert_eq!(result.result, None);
        session.run("len(plt.get_fignums())").gave(0);
    }
    session.run("plt.plot([1]); 1 / 0").raised("ZeroDivisionError", "division by zero");
    assert_eq!(figure(&session.run("plt.plot([1, 2]); plt.show()")).text, ONE_FIGURE);
    session.run("len(plt.gca().lines)").gave(0);
}

#[test]
fn long_lines_are_drawn_in_the_memory_of_the_default() {
    // As SVG, the last of these would take more memory than there is.
    for (points, forms) in
        [(200_000, &["image/png", "image/svg+xml"][..]), (1_000_000, &["image/png"])]
    {
        let code = format!("{IMPORTS}import numpy as np\nplt.plot(np.random.rand({points}))");
        let result = Jar::new().run(&code);
        result.ended(Status::Ok, 0);
        assert_eq!(shown(&result).mime.keys().collect::<Vec<_>>(), forms, "{points}");
    }
}

#[test]
fn figures_are_files_in_every_format() {
    let jar = Jar::new();
    let code = format!(
        "{IMPORTS}plt.plot([1, 2], label='$\\\\alpha$'); plt.legend(); plt.title('Größe')
for kind in 'png', 'jpg', 'svg', 'pdf', 'eps': plt.savefig('out.' + kind)
plt.savefig('large.png', dpi=200, bbox_inches='tight', transparent=True)
plt.savefig('type42.pdf', metadata={{'Title': 't'}})
from matplotlib.backends.backend_pdf import PdfPages
with PdfPages('pages.pdf') as pages: pages.savefig(); pages.savefig()
plt.close()
sorted(open(name, 'rb').read(4).decode('latin-1') for name in ('out.png', 'out.jpg', 'out.svg', 'out.pdf', 'out.eps'))"
    );
    let result = jar.run(&code);
    result.gave(json!(["%!PS", "%PDF", "<?xm", "\u{89}PNG", "\u{ff}\u{d8}\u{ff}\u{e0}"]));
    let files = [
        "large.png",
        "out.eps",
        "out.jpg",
        "out.pdf",
        "out.png",
        "out.svg",
        "pages.pdf",
        "type42.pdf",
    ];
    result.changed(&files, &[], &[]);
    assert!(jar.read("out.svg").contains("</svg>"));
}

#[test]
fn frames_plot_themselves() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let frame = "frame = pd.DataFrame({'a': [1., 2, 4], 'b': [3., 1, 2]}, index=pd.date_range('2024', periods=3))";
    session.run(frame).kept(Status::Ok);
    for code in [
        "frame.plot()",
        "frame.plot(kind='bar', stacked=True)",
        "frame.plot.barh()",
        "frame.plot.area()",
        "frame.plot.scatter(x='a', y='b')",
        "frame.plot(subplots=True)",
        "frame.hist()",
        "frame.boxplot()",
        "frame.a.plot(title='a', figsize=(4, 3))",
        "frame.a.plot.pie()",
        "pd.plotting.scatter_matrix(frame)",
    ] {
        let result = session.run(code);
        assert_eq!(result.status(), Status::Ok, "{code}: {}", result.stderr);
        figure(&result);
    }
    session.run("pd.get_option('plotting.backend')").gave("matplotlib");
}

#[test]
fn styles_and_settings_are_there_and_as_new() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    session
        .run("import matplotlib; [len(plt.style.available), plt.rcParams['lines.linewidth'], matplotlib.get_backend()]")
        .gave(json!([28, 1.5, "agg"]));
    let code = "{k for k in plt.rcParams if k != 'backend' and plt.rcParams[k] != matplotlib.rcParamsDefault[k]}";
    assert_eq!(session.run(code).result.expect("a value").text, "set()");
    let plain = session.run("plt.plot([1, 2]); plt.show()");
    session.run("plt.style.use('ggplot')").kept(Status::Ok);
    session.run("plt.rcParams['axes.facecolor']").gave("#E5E5E5");
    let styled = session.run("plt.plot([1, 2]); plt.show()");
    assert_ne!(figure(&styled).mime["image/png"], figure(&plain).mime["image/png"]);
    session.run("plt.style.use(['seaborn-v0_8-whitegrid', 'default'])").kept(Status::Ok);
    let plain_again = session.run("plt.plot([1, 2]); plt.show()");
    assert_eq!(figure(&plain_again).mime["image/png"], figure(&plain).mime["image/png"]);
    // A style of one's own, in the workspace.
    jar.write("mine.mplstyle", "lines.linewidth: 7\n");
    session.run("plt.style.use('mine.mplstyle'); plt.rcParams['lines.linewidth']").gave(7.0);
    // Nothing was written there but by us.
    session.run("import os; os.listdir('.')").gave(json!(["mine.mplstyle"]));
}

#[test]
fn a_fresh_execution_shows_its_figures() {
    let code = format!("{IMPORTS}plt.plot([1, 2])\nplt.title('fresh')\nplt.show()");
    let result = Jar::new().run(&code);
    assert_eq!(figure(&result).text, ONE_FIGURE);
    // The same code draws the same picture, in another sandbox too.
    let again = Jar::new().run(&code);
    assert_eq!(figure(&again).mime["image/png"], figure(&result).mime["image/png"]);
    // Only pyplot decides that there is something to show.
    assert_eq!(Jar::new().run("import matplotlib.pyplot").result, None);
}

#[test]
fn fonts_of_the_image_and_of_the_workspace() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run(IMPORTS).kept(Status::Ok);
    let mut pictures: Vec<String> =
        ["DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono", "STIXGeneral", "monospace", "serif"]
            .map(|font| {
                let result = session.run(&format!("plt.figtext(.5, .5, 'Text', font='{font}')"));
                figure(&result).mime["image/png"].clone()
            })
            .into();
    // The last two are names for families that are there already.
    pictures.sort();
    pictures.dedup();
    assert_eq!(pictures.len(), 4);
    let formula =
        r"plt.figtext(.5, .5, r'$\sum_{i=0}^\infty \frac{x_i}{\sqrt{2\pi}} \in \mathbb{R}$')";
    let mut pictures: Vec<String> = ["dejavusans", "dejavuserif", "cm", "stix", "stixsans"]
        .map(|set| {
            let code = format!(
                "with plt.rc_context({{'mathtext.fontset': '{set}'}}):\n  {formula}\n  plt.show()"
            );
            figure(&session.run(&code)).mime["image/png"].clone()
        })
        .into();
    pictures.sort();
    pictures.dedup();
    assert_eq!(pictures.len(), 5);
    let code = "from matplotlib import font_manager, cbook
from pathlib import Path
path = font_manager.findfont('DejaVu Serif')
Path('own.ttf').write_bytes(cbook._open(path, 'rb').read())
font_manager.fontManager.addfont('own.ttf')
[str(path), font_manager.FontProperties(fname='own.ttf').get_name(), font_manager.get_font('own.ttf').num_glyphs]";
    let path = "/lib/python3.13/matplotlib/mpl-data/fonts/ttf/DejaVuSerif.ttf";
    session.run(code).gave(json!([path, "DejaVu Serif", 3525]));
    figure(&session.run("plt.figtext(.5, .5, 'Text', font=Path('own.ttf'))"));
}

#[test]
fn a_drawing_of_many_points_comes_without_svg() {
    let code =
        format!("{IMPORTS}plt.scatter(*np.random.default_rng(1).random((2, 50_000)))\nx = 1");
    let result = Jar::new().run(&code);
    let value = shown(&result);
    assert_eq!(value.mime.keys().collect::<Vec<_>>(), ["image/png"]);
}

#[test]
fn backends_that_want_a_display_are_refused() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("import matplotlib; import matplotlib.pyplot as plt").kept(Status::Ok);
    session.run("matplotlib.use('TkAgg')").raised(
        "ModuleNotFoundError",
        "No module named 'tkinter': the Belljar sandbox does not offer a display",
    );
    session.run("matplotlib.use('QtAgg')").kept(Status::Error);
    figure(&session.run("plt.plot([1, 2]); plt.show()"));
}
