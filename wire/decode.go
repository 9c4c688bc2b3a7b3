package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxBody is the maximum size of an HTTP body that the scheduler reads, in bytes.
	MaxBody = 1 << 20
	// MaxDepth is the maximum nesting of a JSON body.
	MaxDepth = 32
)

// Decode reads one JSON object into v. Unknown fields are ignored. The error, if any, is an *Error that names the field
// and its expected type.
func Decode(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return Errorf(InvalidRequest, "the body is empty: send a JSON object")
	}
	if depth(body) > MaxDepth {
		return Errorf(InvalidRequest, "the body is nested deeper than %d levels", MaxDepth)
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("null")) {
		return Errorf(InvalidRequest, "the body must be a JSON object, not null")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return decodeError(err)
	}
	return nil
}

// DecodeStrictly decodes an object in which every name must be known. The error for another name is about a field, if that is not empty,
// and says why the name is not ignored.
func DecodeStrictly(body []byte, into any, field, why string) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	name, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !unknown {
		return err
	}
	if text, unquoteErr := strconv.Unquote(name); unquoteErr == nil {
		name = text
	}
	refused := Errorf(InvalidRequest, "there is no field %s here, and %s", Quote(name), why)
	if field != "" {
		return Invalid(field, "%s", refused.Detail)
	}
	return refused
}

func decodeError(err error) *Error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var base64Error base64.CorruptInputError
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &base64Error):
		return Errorf(InvalidRequest, "data is not base64: the mistake is at byte %d of it", int64(base64Error))
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return Invalid(jsonPath(wrongType.Field), "must be %s, not %s", expected(wrongType.Type), wrongType.Value)
	case errors.As(err, &wrongType):
		return Errorf(InvalidRequest, "the body must be a JSON object, not %s", wrongType.Value)
	case errors.As(err, &syntax) && strings.HasSuffix(syntax.Error(), "after top-level value"):
		return Errorf(InvalidRequest, "there is something after the JSON object: send one object and nothing else")
	case errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input":
		return Errorf(InvalidRequest, "the body is not JSON: it ends too early")
	case errors.As(err, &syntax):
		return Errorf(InvalidRequest, "the body is not JSON: %s at byte %d", syntax, syntax.Offset)
	}
	return Errorf(InvalidRequest, "the body cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// jsonPath drops the names of embedded Go structs from a path, because they are not in the body. JSON names begin with a
// lower-case character.
func jsonPath(path string) string {
	parts := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p != "" && p[0] >= 'A' && p[0] <= 'Z' }), ".")
}

// expected describes the JSON value of a Go type.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		if t == reflect.TypeFor[[]byte]() {
			return "base64 in a string"
		}
		return "an array"
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return fmt.Sprintf("a %s", t.Kind())
}

// depth returns the nesting of arrays and objects. It skips strings and does not validate the JSON: the decoder does.
func depth(body []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}', c == ']':
			level--
		}
	}
	return deepest
}
