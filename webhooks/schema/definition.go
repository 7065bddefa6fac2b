// Package schema validates objects in process as the API server does with a
// CustomResourceDefinition alone, that is, while no webhook is available.
package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	kjson "sigs.k8s.io/json"
)

// Definition contains one version of a CustomResourceDefinition.
type Definition struct {
	GVK      schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Schema is the schema of the whole object.
	Schema *apiextensionsv1.JSONSchemaProps

	scale      *apiextensionsv1.CustomResourceSubresourceScale
	structural *structural.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator
}

// New returns one version of a CRD; "" is the stored version.
func New(def apiextensionsv1.CustomResourceDefinition, version string) (*Definition, error) {
	for _, v := range def.Spec.Versions {
		if v.Name == version || version == "" && v.Storage {
			d := &Definition{
				GVK:      schema.GroupVersionKind{Group: def.Spec.Group, Version: v.Name, Kind: def.Spec.Names.Kind},
				Resource: schema.GroupVersionResource{Group: def.Spec.Group, Version: v.Name, Resource: def.Spec.Names.Plural},
				Schema:   v.Schema.OpenAPIV3Schema,
			}
			if v.Subresources != nil {
				d.scale = v.Subresources.Scale
			}
			return d, d.build()
		}
	}
	return nil, fmt.Errorf("%s has no version %q", def.Spec.Names.Kind, version)
}

// build creates the validators of the schema.
func (d *Definition) build() error {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(d.Schema.DeepCopy(), &internal, nil); err != nil {
		return fmt.Errorf("converting the schema of %s: %w", d.GVK.Kind, err)
	}
	var err error
	if d.structural, err = structural.NewStructural(&internal); err != nil {
		return fmt.Errorf("the schema of %s is not structural: %w", d.GVK.Kind, err)
	}
	if d.validator, _, err = validation.NewSchemaValidator(&internal); err != nil {
		return fmt.Errorf("the schema of %s: %w", d.GVK.Kind, err)
	}
	d.cel = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return nil
}

// Decode reads an object like the API server: unknown fields and nulls are dropped,
// and what fieldValidation Strict would report is returned in strict. err is for
// objects that cannot be parsed.
func (d *Definition) Decode(raw []byte) (obj map[string]any, strict []string, err error) {
	faults, err := kjson.UnmarshalStrict(raw, &obj, kjson.DisallowDuplicateFields)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding: %w", err)
	}
	for _, f := range faults {
		strict = append(strict, f.Error())
	}
	u := &unstructured.Unstructured{Object: obj}
	if gvk := u.GroupVersionKind(); gvk != d.GVK {
		return nil, nil, fmt.Errorf("apiVersion and kind are %s %s, not %s %s", gvk.GroupVersion(), gvk.Kind, d.GVK.GroupVersion(), d.GVK.Kind)
	}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, fmt.Errorf("decoding metadata: %w", err)
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, d.structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, d.structural)
	u.SetGroupVersionKind(d.GVK)
	if found {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, nil, fmt.Errorf("decoding metadata: %w", err)
		}
	}
	for _, f := range unknown {
		strict = append(strict, fmt.Sprintf("unknown field %q", f))
	}
	defaulting.Default(obj, d.structural)
	return obj, strict, nil
}

// Validate validates an object that Decode has read: its creation, or the update of
// old if that is not nil. Like the API server, it generates a name from generateName,
// and an update may keep errors in fields that it does not change.
func (d *Definition) Validate(ctx context.Context, obj, old map[string]any) field.ErrorList {
	u := (&unstructured.Unstructured{Object: obj}).DeepCopy()
	delete(u.Object, "status")
	inNamespace(u)
	if u.GetName() == "" && u.GetGenerateName() != "" {
		const most = 63 - 5
		u.SetName(u.GetGenerateName()[:min(most, len(u.GetGenerateName()))] + "x7k2p")
	}
	errs := apivalidation.ValidateObjectMetaAccessor(u, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	var ofCEL []cel.Option
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, u.Object, d.validator)...)
	} else {
		correlated := common.NewCorrelatedObject(u.Object, old, &model.Structural{Structural: d.structural})
		ofCEL = append(ofCEL, cel.WithRatcheting(correlated))
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, u.Object, old, d.validator, validation.WithRatcheting(correlated))...)
	}
	errs = append(errs, d.scalable(u.Object)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, u.Object, d.structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, d.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	}
	if !blocking(errs) {
		more, _ := d.cel.Validate(ctx, nil, d.structural, u.Object, old, celconfig.RuntimeCELCostBudget, ofCEL...)
		errs = append(errs, more...)
	}
	for _, e := range errs {
		if e.Field == "<nil>" { // a rule of the whole object, whose message begins with the field
			e.Field, _, _ = strings.Cut(e.Detail, " ")
		}
	}
	return errs
}

// Fits reports whether a spec has only fields of the schema, and no more entries and
// characters than it allows. Validating others takes time that grows with the square of the
// number of errors.
func (d *Definition) Fits(spec any) bool {
	s := d.Schema.Properties["spec"]
	return fits(spec, &s)
}

func fits(value any, s *apiextensionsv1.JSONSchemaProps) bool {
	switch v := value.(type) {
	case string:
		return s.MaxLength == nil || int64(utf8.RuneCountInString(v)) <= *s.MaxLength
	case []any:
		if s.Items == nil || s.MaxItems != nil && int64(len(v)) > *s.MaxItems {
			return false
		}
		return !slices.ContainsFunc(v, func(item any) bool { return !fits(item, s.Items.Schema) })
	case map[string]any:
		return (s.MaxProperties == nil || int64(len(v)) <= *s.MaxProperties) && membersFit(v, s)
	}
	return true
}

func membersFit(members map[string]any, s *apiextensionsv1.JSONSchemaProps) bool {
	for name, member := range members {
		p, known := s.Properties[name]
		if !known && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			p, known = *s.AdditionalProperties.Schema, true
		}
		if !known || !fits(member, &p) {
			return false
		}
	}
	return true
}

// inNamespace sets the namespace, which the API server takes from the request.
func inNamespace(u *unstructured.Unstructured) {
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
}

// scalable rejects values that the scale subresource could not read.
func (d *Definition) scalable(obj map[string]any) field.ErrorList {
	if d.scale == nil {
		return nil
	}
	at := strings.TrimPrefix(d.scale.SpecReplicasPath, ".")
	if n, _, err := unstructured.NestedInt64(obj, strings.Split(at, ".")...); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(d.scale.SpecReplicasPath), n, err.Error())}
	}
	return nil
}

// blocking reports whether the API server does not evaluate CEL rules after these
// errors.
func blocking(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
