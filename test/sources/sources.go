// Package sources reads names from Go files of this repository, for the tests that compare them with tables and documents.
package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Names returns what the group of a pattern matches in the Go files of a directory, without its tests, in the order of the files. It is an
// error if there is nothing.
func Names(dir, pattern string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	group, names := regexp.MustCompile(pattern), []string(nil)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range group.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if names == nil {
		return nil, fmt.Errorf("%s has nothing like %s", dir, pattern)
	}
	return names, nil
}
