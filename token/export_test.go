package token

// HasWheel reports whether leases of iss are being renewed.
func HasWheel(iss Issuer) bool {
	wheels.mu.Lock()
	defer wheels.mu.Unlock()
	return wheels.of[iss] != nil
}
