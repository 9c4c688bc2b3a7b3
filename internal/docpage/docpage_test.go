package docpage_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/docpage"
)

const fence = "```"

func TestBlocksAndSpans(t *testing.T) {
	t.Parallel()
	page := docpage.Page{Path: "docs/a.md", Text: strings.Join([]string{
		"Run `lingua nodes`, or `make`.",
		fence + "bash",
		"lingua nodes  # a comment",
		"# another",
		"",
		"curl -d '{\"a\": 1}' \"$X\"",
		fence,
		"1. a list",
		"   " + fence + "json POST /v1/jobs",
		"   {",
		"     \"a\": 1}",
		"   " + fence,
		"",
	}, "\n")}
	want := []docpage.Block{
		{Page: "docs/a.md", Line: 3, Info: "bash", Body: "lingua nodes  # a comment\n# another\n\ncurl -d '{\"a\": 1}' \"$X\"\n"},
		{Page: "docs/a.md", Line: 10, Info: "json POST /v1/jobs", Body: "{\n  \"a\": 1}\n"},
	}
	blocks := page.Blocks()
	if diff := cmp.Diff(want, blocks); diff != "" {
		t.Fatalf("blocks (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lingua nodes", "curl -d '{\"a\": 1}' \"$X\""}, blocks[0].Commands()); diff != "" {
		t.Errorf("commands (-want +got)\n%s", diff)
	}
	if blocks[1].Language() != "json" || blocks[1].About() != "POST /v1/jobs" || blocks[1].Commands() != nil {
		t.Errorf("%q is a block of %q about %q", blocks[1].Info, blocks[1].Language(), blocks[1].About())
	}
	if diff := cmp.Diff([]string{"curl", "-d", `{"a": 1}`, "$X", ""}, docpage.Words(blocks[0].Commands()[1]+" ''")); diff != "" {
		t.Errorf("words (-want +got)\n%s", diff)
	}
	spans := []docpage.Span{{Page: "docs/a.md", Line: 1, Text: "lingua nodes"}, {Page: "docs/a.md", Line: 1, Text: "make"}}
	if diff := cmp.Diff(spans, page.Spans()); diff != "" {
		t.Errorf("spans (-want +got)\n%s", diff)
	}
	replaced, ok := page.ReplaceBlock("bash", "make\n")
	if got := replaced.Blocks(); !ok || got[0].Body != "make\n" || got[1].Body != want[1].Body {
		t.Errorf("replaced %v: %v", ok, got)
	}
	if _, ok := page.ReplaceBlock("toml", ""); ok {
		t.Error("a block was replaced that does not exist")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	page := docpage.Page{Text: "<!-- table: a -->\n| x | y |\n|---|---|\n| `1` |  |\n| 2 | b, c |\n<!-- end of table -->\n| 3 | 4 |\n"}
	if diff := cmp.Diff([][]string{{"`1`", ""}, {"2", "b, c"}}, page.Table("a")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if rows := page.Table("b"); rows != nil {
		t.Errorf("there is no table b: %v", rows)
	}
}

func TestTranscriptIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	long := `{"type":"session_started","detail":"` + strings.Repeat("a, b: ", 30) + `\" , ","list":[1,2,3]}`
	entries := []docpage.Entry{
		{Kind: docpage.Note, Note: "the node connects"},
		{Kind: docpage.Text, Sent: true, JSON: []byte(`{"type":"node_register","langs":["en","zh"]}`)},
		{Kind: docpage.Text, JSON: []byte(long)},
		{Kind: docpage.Binary, JSON: []byte(`{"kind":"audio","chunk":0}`), Bytes: 12},
		{Kind: docpage.Audio, Sent: true, First: 1, Last: 1, Bytes: 640},
		{Kind: docpage.Audio, Sent: true, First: 2, Last: 2, Bytes: 640},
		{Kind: docpage.Audio, Sent: true, First: 3, Last: 3, Bytes: 320},
		{Kind: docpage.Close, Code: 4409},
		{Kind: docpage.Close, Sent: true, Code: 1000},
	}
	body := docpage.FormatTranscript(entries)
	for line := range strings.Lines(body) {
		if len([]rune(line)) > 120 && !strings.Contains(line, "a, b: ") {
			t.Errorf("a line is not wrapped: %s", line)
		}
	}
	page := docpage.Page{Path: "docs/a.md", Text: fence + docpage.TranscriptInfo("node-x") + "\n" + body + fence + "\n"}
	block := page.Blocks()[0]
	if block.TranscriptName() != "node-x" {
		t.Errorf("the name is %q", block.TranscriptName())
	}
	got, err := block.Transcript()
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].JSON != nil {
			got[i].JSON = []byte(strings.ReplaceAll(docpage.SpaceJSON(got[i].JSON), " ", ""))
		}
	}
	want := append(entries[:4:4], docpage.Entry{Kind: docpage.Audio, Sent: true, First: 1, Last: 2, Bytes: 640})
	want = append(want, entries[6:]...)
	for i := range want {
		if want[i].JSON != nil {
			want[i].JSON = []byte(strings.ReplaceAll(docpage.SpaceJSON(want[i].JSON), " ", ""))
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(docpage.Entry{}, "Line")); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

func TestInvalidTranscripts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no mark":              "{\"type\":\"drain\"}\n",
		"no JSON":              "→ {\"type\":\n",
		"a header without end": "← binary {\"kind\":\"audio\"}\n",
		"no close code":        "← close\n",
		"no number":            "→ audio first + 640 bytes\n",
	} {
		block := docpage.Block{Page: "docs/a.md", Line: 1, Info: docpage.TranscriptInfo("x"), Body: body}
		if entries, err := block.Transcript(); err == nil {
			t.Errorf("%s: read as %v", name, entries)
		}
	}
}
