package hash

import (
	"encoding/json"
	"testing"
)

// twice is what Canonical has to return: hashes of it are stored in clusters.
func twice(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, err
	}
	return json.Marshal(decoded)
}

func compare(t *testing.T, v any) {
	t.Helper()
	want, wantErr := twice(v)
	got, err := Canonical(v)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%q: got error %v, want %v", v, err, wantErr)
	}
	if string(got) != string(want) {
		t.Errorf("%q: got\n%s\nwant\n%s", v, got, want)
	}
}

func TestCanonical_IsWhatEncodingTwiceReturns(t *testing.T) {
	type inner struct {
		Z string `json:"z,omitempty"`
		A *int64 `json:"a"`
	}
	for _, v := range []any{
		nil, true, "", "plain", `<p class="a">&amp;</p>`, "tab\t, \u0001, \u007f, \u2028, \\", "\xff invalid", "\ufffd", "grüße",
		0, -1, 1 << 53, int64(1<<62 + 1), 1.5, 1e21, 1e-7, -0.0,
		[]any{}, map[string]any{}, []any{[]any{}, map[string]any{}, nil},
		inner{Z: "z", A: new(int64(123456789012345678))},
		map[string]any{"b": []inner{{}, {Z: "<"}}, "a": map[string]string{"<": "1", "\xff": "2", "": "3", `"`: "4", "é": "5"}},
	} {
		compare(t, v)
	}
	for _, raw := range []string{
		`{"b":1,"a":2,"b":{"d":1,"c":2},"":0}`, `"\u0041\/\u00e9\ud83d\ude00\ud800"`, `-0`, `1E3`, `1.0`, `100000000000000000000000`, `1e400`,
		`{"a":{"b":[{"d":"]","c":"}"},"\"{"]}}`, `{"\u0061":1,"a":2}`, "\"\xff\"", "{\"\xff\":1}", ` [ 1 , "a b" ] `,
	} {
		compare(t, json.RawMessage(raw))
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":[1,"<"],"a":"\u0041"}`, "é\xff\\")
	f.Fuzz(func(t *testing.T, raw, text string) {
		compare(t, text)
		compare(t, map[string]string{text: raw, raw: text})
		if json.Valid([]byte(raw)) {
			compare(t, json.RawMessage(raw))
		}
	})
}
