package podstate

import (
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	for name, tc := range map[string]struct{ log, want string }{
		"nothing":    {log: "\n \n", want: ""},
		"one line":   {log: "no such file\n", want: "no such file"},
		"many lines": {log: "panic: no such file\r\n\n  goroutine 1 [running]:\n\tmain.main()\nexit status 2\n", want: "panic: no such file; goroutine 1 [running]: main.main(); exit status 2"},
		"nginx": {
			log: "2026/11/27 18:12:26 [emerg] 1#1: unknown directive \"retrun\" in /etc/nginx/conf.d/server.snippet:1\n" +
				"nginx: [emerg] unknown directive \"retrun\" in /etc/nginx/conf.d/server.snippet:1\n" +
				"nginx: configuration file /etc/nginx/nginx.conf test failed\n",
			want: `nginx: [emerg] unknown directive "retrun" in /etc/nginx/conf.d/server.snippet:1; nginx: configuration file /etc/nginx/nginx.conf test failed`,
		},
		"nginx, without the second line": {log: "2026/11/27 18:12:26 [emerg] 29#31: bind() failed", want: "[emerg] bind() failed"},
		"a repeated line":                {log: "no such file\nno such file\n", want: "no such file"},
		"Go":                             {log: "2026/11/27 18:12:26.123456 no such file", want: "no such file"},
		"RFC 3339":                       {log: "2026-11-27T18:12:26.123Z no such file", want: "no such file"},
		"RFC 3339 with a zone":           {log: "2026-11-27T18:12:26+01:00 no such file", want: "no such file"},
		"Python":                         {log: "2026-11-27 18:12:26,123 ERROR no such file", want: "ERROR no such file"},
		"in brackets":                    {log: "[2026-11-27 18:12:26] no such file", want: "no such file"},
		"PostgreSQL":                     {log: "2026-11-27 18:12:26.123 UTC [1] FATAL:  no such file", want: "[1] FATAL: no such file"},
		"klog":                           {log: "E1127 18:12:26.123456       1 main.go:12] no such file", want: "main.go:12] no such file"},
		"logfmt":                         {log: `time="2026-11-27T18:12:26Z" level=fatal msg="no such file"`, want: `level=fatal msg="no such file"`},
		"syslog":                         {log: "Nov  7 18:12:26 no such file", want: "no such file"},
		"Apache":                         {log: "[Fri Nov 27 18:12:26.123456 2026] [core:error] no such file", want: "[core:error] no such file"},
		"a time that is a part of the text": {
			log:  "x509: the certificate has expired: current time 2026-11-27T18:12:26Z is after 2026-01-01T00:00:00Z",
			want: "x509: the certificate has expired: current time 2026-11-27T18:12:26Z is after 2026-01-01T00:00:00Z",
		},
		"a number that is not a time": {log: "2026 files", want: "2026 files"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Excerpt(tc.log); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestExcerpt_KeepsTheEndOfLongLogs(t *testing.T) {
	got := Excerpt(strings.Repeat("x\u00e4", 5000) + " the reason")
	if len(got) > mostExcerpt+len("…") || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "the reason") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
