package registry

// tenantsKept bounds the tenants whose groups are kept in memory. Beyond it all
// are forgotten and met again.
const tenantsKept = 100_000

// TenantGroup returns the group of a tenant that was met, or 0.
func (c *catalog) TenantGroup(tenant string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenants[tenant]
}

// KeepTenants keeps the groups of tenants. They are verified where they are
// used: a database that was restored may have given them others.
func (c *catalog) KeepTenants(groups map[string]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant, group := range groups {
		if len(c.tenants) >= tenantsKept {
			clear(c.tenants)
		}
		c.tenants[tenant] = group
	}
}

func (c *catalog) ForgetTenants(list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tenant := range list {
		delete(c.tenants, tenant)
	}
}
