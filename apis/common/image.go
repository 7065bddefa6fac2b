package common

// Image is a container image reference: an optional registry (docker.io by
// default), a repository in lower case, and a tag, a digest or both.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=520
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)+|localhost|[[][0-9A-Fa-f:]+[]])(:[0-9]{1,5})?/|[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?:[0-9]{1,5}/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}))?$')",message="must be an image such as nginx:1.27.4 or registry.example:5000/team/web:1.4, the repository in lower case and no scheme before it, or one with a digest such as @sha256: and 64 hexadecimal digits"
// +kubebuilder:validation:XValidation:rule="self.find('^([^/@:]*:[0-9]+/)?[^@:]*').size() <= 255",message="must have at most 255 characters before the tag and the digest"
// +kubebuilder:validation:XValidation:rule="!self.matches('^(sha256:)?[0-9a-f]{64}$')",message="must not be an image ID, which refers to any image that the node has; use a repository with a tag or a digest"
// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/@]*:[0-9]+/') || self.matches('^[^/@]*:0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])/')",message="the port of the registry must be between 1 and 65535"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('[') || isIP(self.split(']')[0].substring(1))",message="the registry must be a name or an address"
type Image = string
