(** * Errors of shares with costs, to first order

    The shares [f u_i] spend [sum c_i f u_i] of a budget.  If the arguments, the values of
    the curve and the sums that make the excess have rounding errors, the shares have the
    errors of [costs_error]: their own, and a part of the error of the excess, which the
    price hands on.  For the named curves the bound is a few [eps] with temperatures per
    cost ([costs_error_per_cost]), and nearly so with temperatures per entry
    ([costs_error_per_entry]). *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums.
Open Scope R_scope.

(** The slopes that the price sees: [w] are those of the shares by their own worth. *)
Definition weight_of_costs n (c w : nat -> R) := ∑_(j < n) c j ^ 2 * w j.

(** Of an excess [E], entry [i] gives back so much. *)
Definition passed n c w i E := c i * w i / weight_of_costs n c w * E.

(** The bound. *)
Definition error_bound n eps (c u g m w : nat -> R) i :=
  4 * eps * (1 + g i * Rabs (u i)
    + c i * w i / weight_of_costs n c w * ∑_(j < n) c j * (m j + g j * Rabs (u j))).

(** [g j] is the slope of the curve at [u j], and [m j] the distance of its value from 0 or
    1.  The errors: [du j] of the arguments, [df j] of the values in the excess, [D] of the
    part of the excess that only adds costs, [left] what the search leaves of the computed
    excess; [value] of the share itself, and [step] what the search may still move it. *)
Theorem costs_error n eps (c u g m w du df : nat -> R) D left value step i :
  0 <= eps -> (i < n)%nat ->
  (forall j, (j < n)%nat -> 0 < c j /\ 0 <= g j /\ 0 <= m j /\ 0 <= w j) ->
  0 < weight_of_costs n c w ->
  (forall j, (j < n)%nat -> Rabs (du j) <= 3 / 2 * eps * Rabs (u j)) ->
  (forall j, (j < n)%nat -> Rabs (df j) <= eps * m j) ->
  Rabs D <= eps * ∑_(j < n) c j * m j ->
  Rabs left <= 2 * eps * ∑_(j < n) c j * m j ->
  Rabs value <= eps -> Rabs step <= eps ->
  let E := left - ∑_(j < n) c j * (df j + g j * du j) - D in
  Rabs (g i * du i + value + step + passed n c w i E) <= error_bound n eps c u g m w i.
Proof.
  intros He Hi Hpos HW Hdu Hdf HD Hleft Hvalue Hstep E.
  set (M := ∑_(j < n) c j * m j) in *.
  set (U := ∑_(j < n) c j * (g j * Rabs (u j))).
  assert (HM : 0 <= M).
  { apply sum_nonneg; intros j Hj; destruct (Hpos j Hj) as [? [? [? ?]]].
    apply Rmult_le_pos; lra. }
  assert (HU : 0 <= U).
  { apply sum_nonneg; intros j Hj; destruct (Hpos j Hj) as [? [? [? ?]]].
    pose proof (Rabs_pos (u j)); apply Rmult_le_pos; [lra|now apply Rmult_le_pos]. }
  assert (HS : Rabs (∑_(j < n) c j * (df j + g j * du j)) <= eps * M + 3 / 2 * eps * U).
  { unfold M, U; rewrite <- !sum_scal, <- sum_plus.
    eapply Rle_trans; [apply sum_abs|]; apply sum_le; intros j Hj.
    destruct (Hpos j Hj) as [Hc [Hg [Hm Hw]]].
    rewrite Rabs_mult, (Rabs_pos_eq (c j)) by lra.
    replace (eps * (c j * m j) + 3 / 2 * eps * (c j * (g j * Rabs (u j))))
      with (c j * (eps * m j + g j * (3 / 2 * eps * Rabs (u j)))) by field.
    apply Rmult_le_compat_l; [lra|]; eapply Rle_trans; [apply Rabs_triang|].
    rewrite Rabs_mult, (Rabs_pos_eq (g j)) by lra.
    apply Rplus_le_compat; [now apply Hdf|apply Rmult_le_compat_l; [lra|now apply Hdu]]. }
  assert (HE : Rabs E <= eps * (4 * M + 3 / 2 * U)).
  { unfold E, Rminus; eapply Rle_trans; [apply Rabs_triang|].
    rewrite Rabs_Ropp; eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    rewrite Rabs_Ropp; lra. }
  destruct (Hpos i Hi) as [Hc [Hg [Hm Hw]]].
  set (q := c i * w i / weight_of_costs n c w).
  assert (Hq : 0 <= q).
  { apply Rmult_le_pos; [apply Rmult_le_pos; lra|now apply Rlt_le, Rinv_0_lt_compat]. }
  assert (HP : Rabs (passed n c w i E) <= q * (eps * (4 * M + 3 / 2 * U))).
  { unfold passed; fold q; rewrite Rabs_mult, (Rabs_pos_eq q) by exact Hq.
    now apply Rmult_le_compat_l. }
  assert (HD' : Rabs (g i * du i) <= g i * (3 / 2 * eps * Rabs (u i))).
  { rewrite Rabs_mult, (Rabs_pos_eq (g i)) by exact Hg.
    apply Rmult_le_compat_l; [exact Hg|now apply Hdu]. }
  assert (Hsum : ∑_(j < n) c j * (m j + g j * Rabs (u j)) = M + U).
  { unfold M, U; rewrite <- sum_plus; apply sum_ext; intros; ring. }
  unfold error_bound; rewrite Hsum; fold q.
  assert (H1 : 0 <= g i * Rabs (u i)) by (apply Rmult_le_pos; [lra|apply Rabs_pos]).
  assert (H2 : 0 <= eps * (g i * Rabs (u i))) by now apply Rmult_le_pos.
  assert (H3 : 0 <= q * (eps * M)) by (apply Rmult_le_pos; [|apply Rmult_le_pos]; assumption).
  assert (H4 : 0 <= q * (eps * U)) by (apply Rmult_le_pos; [|apply Rmult_le_pos]; assumption).
  eapply Rle_trans; [apply Rabs_triang|]; eapply Rle_trans;
    [apply Rplus_le_compat_r, Rabs_triang|]; eapply Rle_trans;
    [apply Rplus_le_compat_r, Rplus_le_compat_r, Rabs_triang|].
  lra.
Qed.

(** ** The named curves *)

(** A temperature per unit of cost: the slopes are [g / c], and what is spent near 0 and 1
    is at most twice the sum of the slopes. *)
Theorem costs_error_per_cost n eps (c u g m : nat -> R) i : 0 <= eps -> (i < n)%nat ->
  (forall j, (j < n)%nat -> 0 < c j /\ 0 <= g j /\ m j <= 2 * g j) ->
  0 < ∑_(j < n) c j * g j ->
  let mean := (∑_(j < n) c j * g j * Rabs (u j)) / ∑_(j < n) c j * g j in
  error_bound n eps c u g m (fun j => g j / c j) i
    <= 4 * eps * (1 + g i * (Rabs (u i) + 2 + mean)).
Proof.
  intros He Hi Hpos HW mean; unfold error_bound, weight_of_costs.
  rewrite (sum_ext n (fun j => c j ^ 2 * (g j / c j)) (fun j => c j * g j))
    by (intros j Hj; destruct (Hpos j Hj); field; lra).
  destruct (Hpos i Hi) as [Hc [Hg Hm]].
  replace (c i * (g i / c i)) with (g i) by (field; lra).
  set (W := ∑_(j < n) c j * g j) in *.
  set (U := ∑_(j < n) c j * g j * Rabs (u j)) in *.
  assert (Hs : ∑_(j < n) c j * (m j + g j * Rabs (u j)) <= 2 * W + U).
  { unfold W, U; rewrite <- sum_scal, <- sum_plus; apply sum_le; intros j Hj.
    destruct (Hpos j Hj) as [? [? ?]]; nra. }
  apply Rmult_le_compat_l; [lra|].
  assert (H : g i / W * ∑_(j < n) c j * (m j + g j * Rabs (u j)) <= g i / W * (2 * W + U)).
  { apply Rmult_le_compat_l; [|exact Hs].
    apply Rmult_le_pos; [lra|now apply Rlt_le, Rinv_0_lt_compat]. }
  replace (g i / W * (2 * W + U)) with (g i * (2 + mean)) in H
    by (unfold mean; field; lra).
  lra.
Qed.

Lemma le_sqrt a b : 0 <= a -> a ^ 2 <= b -> a <= sqrt b.
Proof. intros Ha H; rewrite <- (sqrt_pow2 a Ha); now apply sqrt_le_1_alt. Qed.

(** Cauchy and Schwarz, for the part of a sum that one entry gets. *)
Lemma part_of_sum n (c w v : nat -> R) i : (i < n)%nat ->
  (forall j, (j < n)%nat -> 0 < c j /\ 0 <= w j /\ 0 <= v j) ->
  0 < weight_of_costs n c w ->
  c i * w i / weight_of_costs n c w * ∑_(j < n) c j * w j * v j
    <= sqrt (w i * ∑_(j < n) w j * v j ^ 2).
Proof.
  intros Hi Hpos HW; set (W := weight_of_costs n c w) in *.
  set (S := ∑_(j < n) c j * w j * v j); set (V := ∑_(j < n) w j * v j ^ 2).
  destruct (Hpos i Hi) as [Hc [Hw Hv]].
  assert (HS : 0 <= S).
  { apply sum_nonneg; intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
    repeat apply Rmult_le_pos; lra. }
  assert (HV : 0 <= V).
  { apply sum_nonneg; intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
    apply Rmult_le_pos; [lra|apply pow2_ge_0]. }
  assert (Hci : c i ^ 2 * w i <= W).
  { apply (term_le_sum n (fun j => c j ^ 2 * w j)); [|exact Hi].
    intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
    apply Rmult_le_pos; [apply pow2_ge_0|lra]. }
  assert (HSV : S ^ 2 <= W * V).
  { pose proof (cauchy_schwarz n (fun j => c j * sqrt (w j)) (fun j => sqrt (w j) * v j)) as H;
      cbv beta in H.
    rewrite (sum_ext n (fun j => c j * sqrt (w j) * (sqrt (w j) * v j))
      (fun j => c j * w j * v j)) in H.
    2: { intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
         rewrite <- (sqrt_sqrt (w j)) at 3 by lra; ring. }
    rewrite (sum_ext n (fun j => (c j * sqrt (w j)) ^ 2) (fun j => c j ^ 2 * w j)) in H.
    2: { intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
         rewrite Rpow_mult_distr, pow2_sqrt by lra; reflexivity. }
    rewrite (sum_ext n (fun j => (sqrt (w j) * v j) ^ 2) (fun j => w j * v j ^ 2)) in H.
    2: { intros j Hj; destruct (Hpos j Hj) as [? [? ?]].
         rewrite Rpow_mult_distr, pow2_sqrt by lra; reflexivity. }
    exact H. }
  apply le_sqrt.
  - apply Rmult_le_pos; [|exact HS].
    apply Rmult_le_pos; [apply Rmult_le_pos; lra|now apply Rlt_le, Rinv_0_lt_compat].
  - replace ((c i * w i / W * S) ^ 2) with (c i ^ 2 * w i * S ^ 2 * w i * (/ W * / W))
      by (field; lra).
    assert (HWi : 0 < / W) by now apply Rinv_0_lt_compat.
    apply Rle_trans with (W * (W * V) * w i * (/ W * / W)).
    + apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|].
      apply Rmult_le_compat_r; [exact Hw|].
      apply Rmult_le_compat; [apply Rmult_le_pos; [apply pow2_ge_0|lra]|apply pow2_ge_0| |];
        assumption.
    + right; field; lra.
Qed.

(** One temperature for every entry: the slopes are those of the curve. *)
Theorem costs_error_per_entry n eps (c u w m : nat -> R) i : 0 <= eps -> (i < n)%nat ->
  (forall j, (j < n)%nat -> 0 < c j /\ 0 <= w j /\ m j <= 2 * w j) ->
  0 < weight_of_costs n c w ->
  error_bound n eps c u w m w i
    <= 4 * eps * (1 + w i * Rabs (u i) + 2 * sqrt (w i * ∑_(j < n) w j)
                  + sqrt (w i * ∑_(j < n) w j * u j ^ 2)).
Proof.
  intros He Hi Hpos HW; unfold error_bound.
  destruct (Hpos i Hi) as [Hc [Hw Hm]].
  assert (H1 := part_of_sum n c w (fun _ => 1) i Hi
    (fun j Hj => conj (proj1 (Hpos j Hj)) (conj (proj1 (proj2 (Hpos j Hj))) Rle_0_1)) HW).
  assert (H2 := part_of_sum n c w (fun j => Rabs (u j)) i Hi
    (fun j Hj => conj (proj1 (Hpos j Hj)) (conj (proj1 (proj2 (Hpos j Hj))) (Rabs_pos (u j))))
    HW).
  cbv beta in H1, H2.
  rewrite (sum_ext n (fun j => w j * 1 ^ 2) w) in H1 by (intros; ring).
  rewrite (sum_ext n (fun j => w j * Rabs (u j) ^ 2) (fun j => w j * u j ^ 2)) in H2
    by (intros; now rewrite pow2_abs).
  set (q := c i * w i / weight_of_costs n c w) in *.
  assert (Hq : 0 <= q).
  { apply Rmult_le_pos; [apply Rmult_le_pos; lra|now apply Rlt_le, Rinv_0_lt_compat]. }
  assert (Hs : ∑_(j < n) c j * (m j + w j * Rabs (u j))
    <= 2 * (∑_(j < n) c j * w j * 1) + ∑_(j < n) c j * w j * Rabs (u j)).
  { rewrite <- sum_scal, <- sum_plus; apply sum_le; intros j Hj.
    destruct (Hpos j Hj) as [? [? ?]]; nra. }
  apply (Rmult_le_compat_l q) in Hs; [|exact Hq].
  apply Rmult_le_compat_l; lra.
Qed.
